// A file system in memory, for tests. It knows what a crash may lose, and so defines the durability
// rules of FileSystem.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "common/io/filesystem.h"

namespace longhaul {

// What a crash leaves of operations that were not synced.
enum class UnsyncedFate {
  // Nothing.
  kDropped,
  // Everything.
  kKept,
  // Any of the writes to each file, each whole or in part (512-byte sectors), and the first of each
  // folder's changes. The seed decides which.
  kRandom,
};

// Thread-safe. Paths begin at a root folder "" that exists. Open files outlive their names.
class MemoryFileSystem : public FileSystem {
 public:
  MemoryFileSystem();
  ~MemoryFileSystem() override;

  absl::StatusOr<std::unique_ptr<File>> Open(const std::string& path) override;
  absl::StatusOr<std::unique_ptr<File>> Create(const std::string& path) override;
  absl::Status CreateDir(const std::string& path) override;
  absl::Status Rename(const std::string& from, const std::string& to) override;
  absl::Status Remove(const std::string& path) override;
  absl::StatusOr<std::vector<std::string>> List(const std::string& path) override;
  absl::Status SyncDir(const std::string& path) override;
  // As much as a number says: it has no bound.
  absl::StatusOr<int64_t> FreeBytes(const std::string& path) override;

  // What a machine would find if it crashed now. Everything in the copy is durable. This object
  // does not change.
  std::unique_ptr<MemoryFileSystem> CrashCopy(UnsyncedFate fate, uint64_t seed = 0) const;

 private:
  struct Node;
  struct Folder;
  struct FileNode;
  class OpenFile;
  // The folder that contains `path`, and the last name of `path`.
  struct Location {
    Folder* folder = nullptr;
    std::string name;
  };

  absl::StatusOr<Folder*> FindFolder(const std::string& path) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<Location> Locate(const std::string& path) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // Shared with open files, which lock it too.
  std::shared_ptr<absl::Mutex> shared_mutex_;
  absl::Mutex& mutex_;
  std::shared_ptr<Folder> root_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace longhaul

// A file system in memory that knows what a crash may take: the reference of the seam's durability
// rules, for tests.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "common/io/filesystem.h"

namespace longhaul {

// What survives of operations that were not synced.
enum class UnsyncedFate {
  kDropped,  // Nothing.
  kKept,     // Everything.
  kRandom,   // Of each file any subset of its writes, each whole or in part (512-byte sectors); of
             // each folder's changes a prefix. Decided by the seed.
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

  // What a machine would find after a crash now; everything in it is durable. This object goes on
  // unchanged.
  std::unique_ptr<MemoryFileSystem> CrashCopy(UnsyncedFate fate, uint64_t seed = 0) const;

 private:
  struct Node;
  struct Folder;
  struct FileNode;
  class OpenFile;
  // The folder that holds `path` and the last name of it.
  struct Place {
    Folder* folder = nullptr;
    std::string name;
  };

  absl::StatusOr<Folder*> FindFolder(const std::string& path) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<Place> Locate(const std::string& path) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // Shared with open files, which lock it too.
  std::shared_ptr<absl::Mutex> shared_mutex_;
  absl::Mutex& mutex_;
  std::shared_ptr<Folder> root_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace longhaul

// A file system that counts the operations that change something, and makes chosen ones fail. A
// failing operation has no effect, except that a failing write leaves its first half (unless it
// fails with CANCELLED: then the process was gone before).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "tests/testing/delegating_filesystem.h"

namespace longhaul {

enum class FileOp {
  kCreate,
  kWrite,
  kSync,
  kPreallocate,
  kTruncate,
  kCreateDir,
  kRename,
  kRemove,
  kSyncDir
};

// Thread-safe if the base is.
class FailingFileSystem : public DelegatingFileSystem {
 public:
  // Decides whether operation `index` (from 0) fails, and how. OK lets it through.
  using Decision = std::function<absl::Status(int64_t index, FileOp op)>;

  // `base` outlives it. Nothing fails until SetDecision.
  explicit FailingFileSystem(FileSystem* base) : DelegatingFileSystem(base) {}

  void SetDecision(Decision decision);
  // The operation of this index fails once.
  void FailOnce(int64_t index, const absl::Status& error);
  // The operation of this index and all later ones fail, as if the process were gone.
  void FailFrom(int64_t index, const absl::Status& error);
  // The number of operations so far.
  int64_t operations() const;

  absl::StatusOr<std::unique_ptr<File>> Create(const std::string& path) override;
  absl::Status CreateDir(const std::string& path) override;
  absl::Status Rename(const std::string& from, const std::string& to) override;
  absl::Status Remove(const std::string& path) override;
  absl::Status SyncDir(const std::string& path) override;

 protected:
  std::unique_ptr<File> Wrap(std::unique_ptr<File> file) override;

 private:
  class FailingFile;
  absl::Status Count(FileOp op);

  mutable absl::Mutex mutex_;
  Decision decision_ ABSL_GUARDED_BY(mutex_);
  int64_t operations_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace longhaul

// A lock among the processes of a machine: it is held on a file, and the system releases it when
// its holder ends, however it ends.
#pragma once

#include <cstddef>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace longhaul {

// Move-only; the lock is released with the object, the file stays. Programs that are started by the
// holder do not hold it. One thread at a time.
class FileLock {
 public:
  FileLock() = default;
  FileLock(FileLock&& other) noexcept;
  FileLock& operator=(FileLock&& other) noexcept;
  ~FileLock();

  // Makes the file if it is not there. Errors name the path: NOT_FOUND, no such folder;
  // PERMISSION_DENIED. Call once.
  absl::Status Open(const std::string& path);
  // Takes the lock, or says at once that another process has it (false). Open must have succeeded.
  absl::StatusOr<bool> Try();
  // The bytes of the file, at most `most`; and in their place other ones. Only while it is locked.
  absl::StatusOr<std::string> Read(size_t most) const;
  absl::Status Write(const std::string& bytes);

 private:
  absl::Status Failed(const char* what) const;

  std::string path_;
  int fd_ = -1;
};

}  // namespace longhaul

#include "common/io/file_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"

namespace longhaul {

FileLock::FileLock(FileLock&& other) noexcept
    : path_(std::move(other.path_)), fd_(std::exchange(other.fd_, -1)) {}

FileLock& FileLock::operator=(FileLock&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(fd_, other.fd_);
  return *this;
}

FileLock::~FileLock() {
  if (fd_ >= 0) close(fd_);
}

absl::Status FileLock::Open(const std::string& path) {
  path_ = path;
  fd_ = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0664);
  return fd_ >= 0 ? absl::OkStatus() : Failed("open");
}

absl::StatusOr<bool> FileLock::Try() {
  if (flock(fd_, LOCK_EX | LOCK_NB) == 0) return true;
  if (errno == EWOULDBLOCK || errno == EINTR) return false;
  if (errno == ENOSYS || errno == ENOLCK || errno == EOPNOTSUPP) {
    return absl::ErrnoToStatus(
        errno, absl::StrCat(path_,
                            ": its file system has no file locks (Lustre has them with the "
                            "mount option flock): name a folder on another one"));
  }
  return Failed("lock");
}

absl::StatusOr<std::string> FileLock::Read(size_t most) const {
  std::string bytes(most, '\0');
  const ssize_t size = pread(fd_, bytes.data(), most, 0);
  if (size < 0) return Failed("read");
  bytes.resize(size);
  return bytes;
}

absl::Status FileLock::Write(const std::string& bytes) {
  if (ftruncate(fd_, 0) != 0 ||
      pwrite(fd_, bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size()))
    return Failed("write");
  return absl::OkStatus();
}

absl::Status FileLock::Failed(const char* what) const {
  return absl::ErrnoToStatus(errno, absl::StrCat("cannot ", what, " ", path_));
}

}  // namespace longhaul

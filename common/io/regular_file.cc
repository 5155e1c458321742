#include "common/io/regular_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "common/io/file_error.h"

namespace longhaul {

FileIdentity IdentityOf(const struct stat& info) {
  return {.device = info.st_dev,
          .inode = info.st_ino,
          .size = info.st_size,
          .changed_s = info.st_mtim.tv_sec,
          .changed_ns = info.st_mtim.tv_nsec};
}

absl::StatusOr<RegularFile> OpenRegularFile(const std::string& path) {
  // Without O_NONBLOCK a pipe of that name would be waited for.
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) return FailedOpen(errno, path);
  absl::Cleanup close_file = [descriptor] { close(descriptor); };
  struct stat info;
  if (fstat(descriptor, &info) != 0)
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot stat ", path));
  if (!S_ISREG(info.st_mode))
    return absl::InvalidArgumentError(absl::StrCat(path, ": not a regular file"));
  std::move(close_file).Cancel();
  return RegularFile{descriptor, IdentityOf(info)};
}

}  // namespace longhaul

#include "common/rpc/memory_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/cleanup/cleanup.h"
#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"

namespace longhaul {
namespace {

absl::Status MemoryFileError(absl::string_view what) {
  return absl::UnavailableError(
      absl::StrCat("a file in memory: ", what, ": ", std::strerror(errno)));
}

absl::Status WriteAllOf(int fd, absl::string_view content) {
  while (!content.empty()) {
    const ssize_t n = write(fd, content.data(), content.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return MemoryFileError("writing");
    content.remove_prefix(n);
  }
  return absl::OkStatus();
}

absl::StatusOr<int> NewDescriptor() {
  const int fd = memfd_create("longhaul", MFD_CLOEXEC);
  if (fd < 0) return MemoryFileError("making it");
  return fd;
}

}  // namespace

absl::StatusOr<std::unique_ptr<MemoryFile>> MemoryFile::Create(absl::string_view content) {
  LH_ASSIGN_OR_RETURN(const int fd, NewDescriptor());
  auto file = absl::WrapUnique(new MemoryFile(fd));
  LH_RETURN_IF_ERROR(file->Replace(content));
  return file;
}

MemoryFile::MemoryFile(int fd) : fd_(fd), path_(absl::StrCat("/proc/self/fd/", fd)) {}

absl::Status MemoryFile::Replace(absl::string_view content) {
  absl::MutexLock lock(&mutex_);
  LH_ASSIGN_OR_RETURN(const int fd, NewDescriptor());
  const absl::Cleanup close_file = [fd] { close(fd); };
  if (fchmod(fd, S_IRUSR | S_IWUSR) != 0) return MemoryFileError("protecting it");
  LH_RETURN_IF_ERROR(WriteAllOf(fd, content));
  // A reader may tell contents apart by this time, in whole seconds.
  const timespec time{.tv_sec = ++replaced_, .tv_nsec = 0};
  const timespec times[] = {time, time};
  if (futimens(fd, times) != 0) return MemoryFileError("dating it");
  // The path names the descriptor, so it leads to the new content from one moment to the next.
  if (dup3(fd, fd_, O_CLOEXEC) < 0) return MemoryFileError("replacing it");
  return absl::OkStatus();
}

}  // namespace longhaul

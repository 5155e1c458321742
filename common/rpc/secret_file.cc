#include "common/rpc/secret_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/base/status_macros.h"
#include "common/io/file_error.h"

namespace longhaul {
namespace {

absl::Status CheckSecret(const struct stat& file, const std::string& what,
                         const std::string& path) {
  if (!S_ISREG(file.st_mode)) return absl::InvalidArgumentError(what + " is not a file");
  const mode_t others = file.st_mode & (S_IRWXO | S_IWGRP);
  const mode_t group = file.st_uid == geteuid() ? file.st_mode & S_IRWXG : 0;
  if (others == 0 && group == 0) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat(what, " holds a secret that other users can read or change: chmod 600 ", path,
                   " (of a Kubernetes secret: defaultMode: 0440)"));
}

}  // namespace

absl::StatusOr<std::string> ReadSecretFile(const std::string& flag, const std::string& path,
                                           int64_t bytes_max) {
  const std::string what = absl::StrCat(flag, " ", path);
  // Without blocking, since the path may be a pipe that nobody writes to.
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return FileError(errno, what);
  const absl::Cleanup close_file = [fd] { close(fd); };
  struct stat file = {};
  if (fstat(fd, &file) != 0) return FileError(errno, what);
  LH_RETURN_IF_ERROR(CheckSecret(file, what, path));
  std::string content(bytes_max + 1, '\0');
  size_t size = 0;
  while (size < content.size()) {
    const ssize_t n = read(fd, content.data() + size, content.size() - size);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return FileError(errno, what);
    if (n == 0) break;
    size += n;
  }
  if (static_cast<int64_t>(size) > bytes_max) {
    return absl::InvalidArgumentError(absl::StrCat(what, " has more than ", bytes_max, " bytes"));
  }
  content.resize(size);
  return content;
}

absl::StatusOr<std::string> ReadTokenFile(const std::string& flag, const std::string& path) {
  LH_ASSIGN_OR_RETURN(const std::string content, ReadSecretFile(flag, path, kTokenBytesMax + 2));
  const absl::string_view token = absl::StripAsciiWhitespace(content);
  const auto size = static_cast<int64_t>(token.size());
  const bool visible =
      std::all_of(token.begin(), token.end(), [](unsigned char c) { return c > 32 && c < 127; });
  if (size >= kTokenBytesMin && size <= kTokenBytesMax && visible) return std::string(token);
  return absl::InvalidArgumentError(absl::StrCat(
      flag, " ", path, " does not hold one token of ", kTokenBytesMin, " to ", kTokenBytesMax,
      " visible characters on one line: openssl rand -hex 32 > ", path));
}

}  // namespace longhaul

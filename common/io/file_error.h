// What an error of the system says of a file. (The rules of FileSystem are its own:
// posix_filesystem.cc.)
#pragma once

#include <cerrno>
#include <cstring>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/base/file_limit.h"
#include "common/io/file_content.h"

namespace longhaul {

// The error of open(2) of `path`. NOT_FOUND names the target of a dangling link; it is also where
// links form a loop, or a file is taken for a
// folder; UNAVAILABLE: too many files are open; else the system's error.
inline absl::Status FailedOpen(int error, absl::string_view path) {
  if (error == ENOENT) {
    if (const std::string link = DanglingLink(std::string(path)); !link.empty())
      return absl::NotFoundError(absl::StrCat("cannot open ", path, ": ", link));
  }
  const absl::Status status = absl::ErrnoToStatus(error, absl::StrCat("cannot open ", path));
  if (error == ELOOP || error == ENOTDIR) return absl::NotFoundError(status.message());
  // RESOURCE_EXHAUSTED would tell of memory, or of a full disk.
  if (error == EMFILE || error == ENFILE)
    return absl::UnavailableError(absl::StrCat(status.message(), FileLimitWords(error)));
  return status;
}

// The error of a key, token file or certificate that a program was told to read or write. `what`
// names it. NOT_FOUND; PERMISSION_DENIED; UNAVAILABLE: any other, which may be over at a later try.
inline absl::Status FileError(int error, absl::string_view what) {
  const std::string message = absl::StrCat(what, ": ", std::strerror(error));
  if (error == ENOENT || error == ENOTDIR) return absl::NotFoundError(message);
  if (error == EACCES || error == EPERM || error == EROFS)
    return absl::PermissionDeniedError(message);
  return absl::UnavailableError(message);
}

}  // namespace longhaul

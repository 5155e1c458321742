#pragma once

#include <cerrno>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace longhaul {

// The error of open(2) of `path`. NOT_FOUND also where links form a loop, or a file is taken for a
// folder; UNAVAILABLE: too many files are open; else the system's error.
inline absl::Status FailedOpen(int error, absl::string_view path) {
  const absl::Status status = absl::ErrnoToStatus(error, absl::StrCat("cannot open ", path));
  if (error == ELOOP || error == ENOTDIR) return absl::NotFoundError(status.message());
  // RESOURCE_EXHAUSTED would tell of memory, or of a full disk.
  if (error == EMFILE || error == ENFILE) return absl::UnavailableError(status.message());
  return status;
}

}  // namespace longhaul

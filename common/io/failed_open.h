#pragma once

#include <cerrno>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace longhaul {

// The error of open(2) of `path`. NOT_FOUND also where links form a loop, or a file is taken for a
// folder; else the system's error.
inline absl::Status FailedOpen(int error, absl::string_view path) {
  const absl::Status status = absl::ErrnoToStatus(error, absl::StrCat("cannot open ", path));
  if (error != ELOOP && error != ENOTDIR) return status;
  return absl::NotFoundError(status.message());
}

}  // namespace longhaul

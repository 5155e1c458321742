// Opens regular files for reading, and tells one from another, or from a later state of it.
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace longhaul {

struct FileIdentity {
  uint64_t device = 0, inode = 0;
  int64_t size = 0, changed_s = 0, changed_ns = 0;

  bool operator==(const FileIdentity&) const = default;
};
FileIdentity IdentityOf(const struct stat& info);

struct RegularFile {
  // The caller closes it.
  int descriptor = -1;
  FileIdentity identity;
};

// NOT_FOUND: no such file. INVALID_ARGUMENT: not a regular file. Otherwise the system's error, with
// the path.
absl::StatusOr<RegularFile> OpenRegularFile(const std::string& path);

}  // namespace longhaul

// Files with secrets: read only while others cannot.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace longhaul {

// The whole file at `path`, given by the flag `flag` (both named in errors, the content never). A
// group may read a file of another owner, who put it there for that group (as Kubernetes mounts
// secrets). Blocks on the file system.
//   NOT_FOUND            it is not there
//   FAILED_PRECONDITION  others may read or write it; the message has the command that mends it
//   INVALID_ARGUMENT     it is no file, or has more than `bytes_max`
//   PERMISSION_DENIED, UNAVAILABLE  it cannot be read
absl::StatusOr<std::string> ReadSecretFile(const std::string& flag, const std::string& path,
                                           int64_t bytes_max);

inline constexpr int64_t kTokenBytesMin = 16, kTokenBytesMax = 4096;
// A file that holds one bearer token, on one line. Also INVALID_ARGUMENT: it is not one token of 16
// to 4096 visible ASCII characters.
absl::StatusOr<std::string> ReadTokenFile(const std::string& flag, const std::string& path);

}  // namespace longhaul

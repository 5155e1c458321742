// Reads files with secrets (tokens, private keys), but only if other users cannot read them.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/token_size.h"

namespace longhaul {

// Reads the whole file at `path`, which the flag `flag` gave. Errors name both, and never the
// content. A group may read a file of another owner, who put it there for that group (Kubernetes
// mounts secrets so). Blocks on the file system.
//   NOT_FOUND            it does not exist
//   FAILED_PRECONDITION  others may read or write it; the message has the command that corrects it
//   INVALID_ARGUMENT     it is not a file, or has more than `bytes_max`
//   PERMISSION_DENIED, UNAVAILABLE  it cannot be read
absl::StatusOr<std::string> ReadSecretFile(const std::string& flag, const std::string& path,
                                           int64_t bytes_max);

// Reads a file with one bearer token, on one line. Also INVALID_ARGUMENT: it is not one token of 16
// to 4096 visible ASCII characters.
absl::StatusOr<std::string> ReadTokenFile(const std::string& flag, const std::string& path);

}  // namespace longhaul

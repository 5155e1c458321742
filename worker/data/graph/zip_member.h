// Reads a member of a zip archive, as numpy.savez and numpy.savez_compressed write them: stored or
// deflated, also beyond 4 GiB.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "worker/data/byte_stream.h"

namespace longhaul {

// NOT_FOUND: no such file, or no member of that name. INVALID_ARGUMENT: not a zip archive, or a
// damaged one; also from reads, where the member's checksum does not match. Every message names the
// file. Blocks on the disk.
absl::StatusOr<std::unique_ptr<ByteStream>> OpenZipMember(const std::string& path,
                                                          const std::string& member);

// Whether the archive has a member of that name. Errors: as above, but for the second NOT_FOUND.
absl::StatusOr<bool> HasZipMember(const std::string& path, const std::string& member);

}  // namespace longhaul

// A file's bytes from its beginning to its end, uncompressed where they are compressed: gzip
// (several members, too) and zstd (several frames), told by the first bytes. Not thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace longhaul {

enum class Compression { kNone, kGzip, kZstd };

class ByteStream {
 public:
  // NOT_FOUND: no such file. INVALID_ARGUMENT: not a regular file. Else the system's error.
  static absl::StatusOr<std::unique_ptr<ByteStream>> Open(const std::string& path);
  virtual ~ByteStream() = default;

  // Fills `out` (not empty) from its beginning; 0: the end. INVALID_ARGUMENT: the compressed bytes
  // are damaged, or end before their time. Every message names the file. Blocks on the disk.
  virtual absl::StatusOr<size_t> Read(absl::Span<char> out) = 0;
  // Bytes of the file, as it is on disk, that were taken so far.
  virtual int64_t taken() const = 0;
};

// By a file's first bytes. Errors: those of ByteStream::Open.
absl::StatusOr<Compression> CompressionOf(const std::string& path);

}  // namespace longhaul

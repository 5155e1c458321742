// Reads a file from its beginning to its end, and decompresses gzip (with one or several members)
// and zstd (with one or several frames). The first bytes tell which it is. Not thread-safe.
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
  // NOT_FOUND: there is no such file. INVALID_ARGUMENT: it is not a regular file. Others: the
  // system's error.
  static absl::StatusOr<std::unique_ptr<ByteStream>> Open(const std::string& path);
  virtual ~ByteStream() = default;

  // Reads into `out`, which is not empty, and returns how many bytes. 0: the end. INVALID_ARGUMENT:
  // the compressed bytes are damaged, or end too early. Every message names the file. Blocks on the
  // disk.
  virtual absl::StatusOr<size_t> Read(absl::Span<char> out) = 0;
  // How many bytes of the file on disk were consumed so far.
  virtual int64_t taken() const = 0;
};

// Tells the compression by the file's first bytes. Errors: those of ByteStream::Open.
absl::StatusOr<Compression> CompressionOf(const std::string& path);

}  // namespace longhaul

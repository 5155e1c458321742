// Reads a safetensors file. Thread-safe (immutable).
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/io/read_only_file.h"
#include "common/safetensors/safetensors_header.h"

namespace longhaul {

class SafetensorsFile {
 public:
  // Reads only the header. NOT_FOUND: no such file. INVALID_ARGUMENT: not a complete safetensors
  // file (see ParseSafetensorsHeader), with the path. Otherwise the system's error.
  static absl::StatusOr<SafetensorsFile> Open(const std::string& path);

  const std::string& path() const { return file_.path(); }
  const SafetensorsHeader& header() const { return header_; }
  // Elements `first` to `first + out.size()` of a tensor that a model may be stored in
  // (IsModelType). Blocks on the disk. DATA_LOSS: the file was changed, or cannot be read.
  absl::Status Read(const StoredTensor& tensor, int64_t first, absl::Span<float> out) const;
  // As many bytes as `out` has, from byte `first` of any tensor on. Errors: as Read.
  absl::Status ReadBytes(const StoredTensor& tensor, int64_t first, absl::Span<uint8_t> out) const {
    return file_.Read(data_ + tensor.offset + first, out);
  }

 private:
  SafetensorsFile(ReadOnlyFile file, int64_t data, SafetensorsHeader header)
      : file_(std::move(file)), data_(data), header_(std::move(header)) {}

  ReadOnlyFile file_;
  // Where the bytes after the header begin.
  int64_t data_ = 0;
  SafetensorsHeader header_;
};

}  // namespace longhaul

// Reads a safetensors file. Thread-safe (immutable).
#pragma once

#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/io/mapped_file.h"
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
  // Null if there is no such tensor.
  const StoredTensor* Find(absl::string_view name) const;
  // Elements `first` to `first + out.size()` of a tensor that a model may be stored in
  // (IsModelType). Blocks on the disk. DATA_LOSS: the file was changed, or cannot be read.
  absl::Status Read(const StoredTensor& tensor, int64_t first, absl::Span<float> out) const;
  // The tensor's bytes where the file is mapped, valid as long as the object. Only for a file that
  // nobody changes (mapped_file.h).
  absl::Span<const uint8_t> BytesOf(const StoredTensor& tensor) const {
    return mapped_.bytes().subspan(data_ + tensor.offset, tensor.bytes());
  }

 private:
  SafetensorsFile(ReadOnlyFile file, MappedFile mapped, int64_t data, SafetensorsHeader header);

  ReadOnlyFile file_;
  MappedFile mapped_;
  // Where the bytes after the header begin.
  int64_t data_ = 0;
  SafetensorsHeader header_;
  absl::flat_hash_map<std::string, size_t> index_;
};

}  // namespace longhaul

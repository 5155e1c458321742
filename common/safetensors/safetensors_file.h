// Reads a safetensors file, which is mapped: a tensor needs memory only until it is released.
// Thread-safe (immutable). The file must not change meanwhile.
#pragma once

#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/io/mapped_file.h"
#include "common/safetensors/safetensors_header.h"

namespace longhaul {

class SafetensorsFile {
 public:
  // Reads only the header. NOT_FOUND: no such file. INVALID_ARGUMENT: not a complete safetensors
  // file (see ParseSafetensorsHeader), with the path. Otherwise the system's error.
  static absl::StatusOr<SafetensorsFile> Open(const std::string& path);

  const std::string& path() const { return path_; }
  const SafetensorsHeader& header() const { return header_; }
  // Null if there is no such tensor.
  const StoredTensor* Find(absl::string_view name) const;
  // The tensor's bytes, valid as long as the object.
  absl::Span<const uint8_t> BytesOf(const StoredTensor& tensor) const {
    return data_.subspan(tensor.offset, tensor.bytes());
  }
  // See MappedFile.
  void Release(absl::Span<const uint8_t> part) const { file_.Release(part); }

 private:
  SafetensorsFile(std::string path, MappedFile file, absl::Span<const uint8_t> data,
                  SafetensorsHeader header);

  std::string path_;
  MappedFile file_;
  // The bytes of file_ after the header.
  absl::Span<const uint8_t> data_;
  SafetensorsHeader header_;
  absl::flat_hash_map<std::string, size_t> index_;
};

}  // namespace longhaul

// The header of a safetensors file (the format of the `safetensors` package): which tensors it has,
// and where their bytes lie.
//   u64 n | n bytes of JSON | the tensors' bytes
//   {"__metadata__": {"format": "pt"},
//    "a.weight": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}}
// Pure.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/safetensors/element_type.h"

namespace longhaul {

// Bytes of JSON, enough for about 100,000 tensors.
inline constexpr int64_t kSafetensorsHeaderMax = 16 << 20;
inline constexpr int kTensorDimensionsMax = 16;

struct StoredTensor {
  std::string name;
  ElementType type = ElementType::kF32;
  std::vector<int64_t> shape;
  int64_t elements = 0;
  // The place of its first byte, counted from the end of the header.
  int64_t offset = 0;

  int64_t bytes() const { return elements * BytesOf(type); }
};

struct SafetensorsHeader {
  // In the order of their bytes.
  std::vector<StoredTensor> tensors;
  std::map<std::string, std::string> metadata;
};

// `data_bytes`: the number of bytes after the header. INVALID_ARGUMENT, naming the tensor: no such
// header; a name that occurs twice; an unknown dtype; a shape that does not match the bytes;
// tensors that overlap, leave a gap, lie beyond the file or do not fill it.
absl::StatusOr<SafetensorsHeader> ParseSafetensorsHeader(absl::string_view json,
                                                         int64_t data_bytes);

// Returns the JSON, padded with spaces to a multiple of 8 bytes. The tensors' offsets follow from
// their order.
std::string WriteSafetensorsHeader(const SafetensorsHeader& header);

}  // namespace longhaul

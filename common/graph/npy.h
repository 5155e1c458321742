// The header of a .npy file (NumPy's format, versions 1 to 3): type and shape of an array, and
// where its bytes begin. Only plain arrays of numbers, in C order and little-endian, are accepted.
//   "\x93NUMPY" | u8 major | u8 minor | u16 (version 1) or u32 length | a Python dict | bytes
//   {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }
// Pure. Errors name the file, and have a hint (common/base/status_hint.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace longhaul {

enum class NpyType {
  kBool,
  kInt8,
  kUint8,
  kInt16,
  kUint16,
  kInt32,
  kUint32,
  kInt64,
  kUint64,
  kFloat16,
  kFloat32,
  kFloat64
};

// NumPy's name: "int64". The inverse is empty for an unknown name.
absl::string_view NameOf(NpyType type);
std::optional<NpyType> NpyTypeOf(absl::string_view name);
int64_t BytesOf(NpyType type);
bool IsFloat(NpyType type);
// Also kBool.
inline bool IsWholeNumber(NpyType type) { return !IsFloat(type); }

// Longer headers are refused. So many first bytes of a file are enough.
inline constexpr int64_t kNpyHeaderMax = 1 << 16;
inline constexpr int kNpyDimensionsMax = 8;

struct NpyHeader {
  NpyType type = NpyType::kFloat32;
  std::vector<int64_t> shape;
  int64_t elements = 0;
  // Where the array's bytes begin in the file.
  int64_t data = 0;

  // Does not overflow.
  int64_t bytes() const { return elements * BytesOf(type); }
};

// `head`: the first kNpyHeaderMax bytes of the file, or all of it. INVALID_ARGUMENT: no such
// header; Fortran's order; big-endian; objects, texts, complex numbers, times or structures, by
// name; a shape of more than 2^63 bytes.
absl::StatusOr<NpyHeader> ParseNpyHeader(absl::string_view path, absl::string_view head);

// INVALID_ARGUMENT: the file has fewer or more bytes than header and array.
absl::Status CheckNpySize(absl::string_view path, const NpyHeader& header, int64_t file_bytes);

// kNpyWrittenHeader bytes for any shape of up to two dimensions, so that a writer can learn the
// shape at the end.
inline constexpr int64_t kNpyWrittenHeader = 128;
std::string WriteNpyHeader(NpyType type, const std::vector<int64_t>& shape);

// "(3, 4)", "(5,)", as Python writes it.
std::string ShapeText(const std::vector<int64_t>& shape);

}  // namespace longhaul

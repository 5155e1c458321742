// Types of a tensor's elements in safetensors files, and conversion between float32 and the types
// in which models are stored. Pure.
#pragma once

#include <cstdint>
#include <optional>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace longhaul {

// The types of the format whose elements are whole bytes.
enum class ElementType {
  kBool,
  kU8,
  kI8,
  kF8E5M2,
  kF8E4M3,
  kI16,
  kU16,
  kF16,
  kBf16,
  kI32,
  kU32,
  kF32,
  kF64,
  kI64,
  kU64
};

// The name in the format: "BF16". The inverse is empty for an unknown name.
absl::string_view NameOf(ElementType type);
std::optional<ElementType> ElementTypeOf(absl::string_view name);
int64_t BytesOf(ElementType type);

// Whether ToFloat converts it: kF32, kBf16, kF16.
bool IsModelType(ElementType type);
// `in` holds out.size() elements of a model type, little-endian, at any address.
void ToFloat(ElementType type, const uint8_t* in, absl::Span<float> out);
// Converts to bfloat16, rounded to nearest even. NaN stays NaN.
void ToBf16(absl::Span<const float> in, uint16_t* out);

}  // namespace longhaul

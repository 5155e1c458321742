// Types of a tensor's elements in safetensors files, and conversion between float32 and those that
// models are stored in. Pure.
#pragma once

#include <cstdint>
#include <optional>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace longhaul {

// Of those that the format has, the ones of whole bytes.
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

// As in the format: "BF16". Nothing: no such type.
absl::string_view NameOf(ElementType type);
std::optional<ElementType> ElementTypeOf(absl::string_view name);
int64_t BytesOf(ElementType type);

// Whether ToFloat converts it: kF32, kBf16, kF16.
bool IsModelType(ElementType type);
// `in` holds out.size() elements of a model type, little-endian, at any address.
void ToFloat(ElementType type, const uint8_t* in, absl::Span<float> out);
// To bfloat16, to nearest even; not a number stays so.
void ToBf16(absl::Span<const float> in, uint16_t* out);

}  // namespace longhaul

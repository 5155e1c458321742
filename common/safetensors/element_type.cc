#include "common/safetensors/element_type.h"

#include <bit>
#include <cstring>

#include "common/base/check.h"

namespace longhaul {
namespace {

struct TypeName {
  ElementType type;
  absl::string_view name;
  int64_t bytes;
};
constexpr TypeName kTypes[] = {
    {ElementType::kBool, "BOOL", 1},      {ElementType::kU8, "U8", 1},
    {ElementType::kI8, "I8", 1},          {ElementType::kF8E5M2, "F8_E5M2", 1},
    {ElementType::kF8E4M3, "F8_E4M3", 1}, {ElementType::kI16, "I16", 2},
    {ElementType::kU16, "U16", 2},        {ElementType::kF16, "F16", 2},
    {ElementType::kBf16, "BF16", 2},      {ElementType::kI32, "I32", 4},
    {ElementType::kU32, "U32", 4},        {ElementType::kF32, "F32", 4},
    {ElementType::kF64, "F64", 8},        {ElementType::kI64, "I64", 8},
    {ElementType::kU64, "U64", 8}};

uint16_t Word(const uint8_t* in, size_t index) {
  uint16_t word;
  std::memcpy(&word, in + 2 * index, sizeof(word));
  return word;
}

float OfHalf(uint16_t half) {
  const uint32_t sign = uint32_t{half} >> 15 << 31, exponent = half >> 10 & 31,
                 mantissa = half & 1023;
  // Zero, or below the normal numbers: mantissa * 2^-24.
  if (exponent == 0) {
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
    return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(magnitude));
  }
  const uint32_t wide = exponent == 31 ? 255 : exponent + 112;
  return std::bit_cast<float>(sign | wide << 23 | mantissa << 13);
}

}  // namespace

absl::string_view NameOf(ElementType type) { return kTypes[static_cast<int>(type)].name; }

std::optional<ElementType> ElementTypeOf(absl::string_view name) {
  for (const TypeName& entry : kTypes) {
    if (entry.name == name) return entry.type;
  }
  return std::nullopt;
}

int64_t BytesOf(ElementType type) { return kTypes[static_cast<int>(type)].bytes; }

bool IsModelType(ElementType type) {
  return type == ElementType::kF32 || type == ElementType::kBf16 || type == ElementType::kF16;
}

void ToFloat(ElementType type, const uint8_t* in, absl::Span<float> out) {
  LH_CHECK(IsModelType(type), "an element type that models are not stored in");
  if (type == ElementType::kF32) {
    if (!out.empty()) std::memcpy(out.data(), in, out.size() * sizeof(float));
  } else if (type == ElementType::kBf16) {
    for (size_t i = 0; i < out.size(); ++i)
      out[i] = std::bit_cast<float>(uint32_t{Word(in, i)} << 16);
  } else {
    for (size_t i = 0; i < out.size(); ++i) out[i] = OfHalf(Word(in, i));
  }
}

void ToBf16(absl::Span<const float> in, uint16_t* out) {
  for (size_t i = 0; i < in.size(); ++i) {
    const auto bits = std::bit_cast<uint32_t>(in[i]);
    const bool is_nan = (bits & 0x7fffffff) > 0x7f800000;
    out[i] = is_nan ? bits >> 16 | 64 : (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
  }
}

}  // namespace longhaul

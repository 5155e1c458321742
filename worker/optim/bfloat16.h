// Conversions between float32 and the bits of bf16 numbers, one value at a time. Kernels convert
// within their passes.
#pragma once

#include <bit>
#include <cstdint>

namespace longhaul {

inline float FromBfloat16(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

// Rounds to nearest even. `value` is not a NaN.
inline uint16_t ToBfloat16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1)) >> 16);
}

}  // namespace longhaul

// One element of bf16: what the scalar kernels and the remainders of the SIMD kernels share. See
// bf16_kernels.h.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>

#include "common/codec/kernels/block.h"

namespace longhaul::kernels {

inline constexpr uint32_t kBf16FiniteMax = 0x7f7f;
inline constexpr int kBf16Bytes = 2;

inline uint32_t Bf16Code(float x) {
  const uint32_t bits = std::bit_cast<uint32_t>(x);
  const uint32_t magnitude = bits & kMagnitudeMask;
  const uint32_t rounded = (magnitude + 0x7fff + (magnitude >> 16 & 1)) >> 16;
  return (bits >> 31 << 15) | std::min(rounded, kBf16FiniteMax);
}

inline float Bf16Value(uint32_t code) { return std::bit_cast<float>(code << 16); }

inline uint32_t LoadBf16(const uint8_t* bytes) {
  uint16_t code;
  std::memcpy(&code, bytes, sizeof(code));
  return code;
}

inline bool Bf16IsFinite(uint32_t code) { return (code & 0x7fff) <= kBf16FiniteMax; }

}  // namespace longhaul::kernels

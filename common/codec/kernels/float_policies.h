// The meaning of fp32 and bf16.
#pragma once

#include "common/codec/kernels/dense_policy.h"

namespace longhaul::kernels {

struct WithoutScale {
  static constexpr int kScaleBytes = 0;
  static constexpr bool kRelativeScales = false, kStochastic = false;
  struct Scale {};
  template <typename Block>
  LONGHAUL_HOST_DEVICE static Scale Choose(const Block&, uint32_t, int, uint32_t*) {
    return {};
  }
  static constexpr Scale FromPlane(const uint8_t*, int64_t, int32_t) { return {}; }
};

// The floats are not changed.
struct Fp32 : WithoutScale {
  static constexpr int kCodeBits = 32;
  static constexpr uint32_t Code(float x, Scale, float) { return std::bit_cast<uint32_t>(x); }
  static constexpr float Value(uint32_t code, Scale) { return std::bit_cast<float>(code); }
};

// The upper half of bits(x) + 0x7fff + (bit 16 of x). This rounds to nearest even with integers, so
// denormals are kept. A value that would round to Inf becomes the largest finite bf16.
struct Bf16 : WithoutScale {
  static constexpr int kCodeBits = 16;
  static constexpr uint32_t Code(float x, Scale, float) {
    const uint32_t magnitude = Magnitude(x);
    const uint32_t rounded = (magnitude + 0x7fff + (magnitude >> 16 & 1)) >> 16;
    return (std::bit_cast<uint32_t>(x) >> 31 << 15) | std::min(rounded, 0x7f7fu);
  }
  static constexpr float Value(uint32_t code, Scale) { return std::bit_cast<float>(code << 16); }
};

}  // namespace longhaul::kernels

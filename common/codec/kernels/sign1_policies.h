// The meaning of sign1 (common/codec/sign1_format.h).
#pragma once

#include "common/codec/kernels/dense_policy.h"
#include "common/codec/sign1_format.h"

namespace longhaul::kernels {

struct LeastErrorSign1 {
  static constexpr int kCodeBits = 1, kScaleBytes = scale_word::kBytes;
  static constexpr bool kRelativeScales = false, kStochastic = false;
  using Scale = float;

  template <typename Block>
  LONGHAUL_HOST_DEVICE static float Choose(const Block& block, uint32_t magnitude_max, int elements,
                                           uint32_t* word) {
    const float factor = EnergyFactor(magnitude_max);
    const float sum =
        block.Sum([&](float x, int) { return std::bit_cast<float>(Magnitude(x)) * factor; });
    *word = sign1::MeanWord(sum, elements, magnitude_max);
    return scale_word::Value(*word);
  }
  static constexpr float FromPlane(const uint8_t* scales, int64_t block, int32_t) {
    return scale_word::Value(scale_word::Load(scales, block));
  }
  static constexpr uint32_t Code(float x, float, float) { return std::bit_cast<uint32_t>(x) >> 31; }
  static constexpr float Value(uint32_t code, float scale) {
    return std::bit_cast<float>(std::bit_cast<uint32_t>(scale) | code << 31);
  }
};

struct RootMeanSquareSign1 : LeastErrorSign1 {
  template <typename Block>
  LONGHAUL_HOST_DEVICE static float Choose(const Block& block, uint32_t magnitude_max, int elements,
                                           uint32_t* word) {
    const float energy = SignalEnergy(block, EnergyFactor(magnitude_max));
    *word = sign1::RootMeanSquareWord(energy, elements, magnitude_max);
    return scale_word::Value(*word);
  }
};

}  // namespace longhaul::kernels

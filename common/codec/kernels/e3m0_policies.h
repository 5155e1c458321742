// The meaning of e3m0 (common/codec/e3m0_format.h).
#pragma once

#include <algorithm>

#include "common/codec/e3m0_format.h"
#include "common/codec/kernels/dense_policy.h"

namespace longhaul::kernels {

struct NearestE3m0 {
  static constexpr int kCodeBits = 4, kScaleBytes = 1;
  static constexpr bool kRelativeScales = true, kStochastic = false;
  using Scale = e3m0::Levels;

  template <typename Block>
  LONGHAUL_HOST_DEVICE static Scale Choose(const Block&, uint32_t magnitude_max, int,
                                           uint32_t* index) {
    *index = e3m0::NearestScale(magnitude_max);
    return e3m0::LevelsOf(*index);
  }
  static constexpr Scale FromPlane(const uint8_t* scales, int64_t block, int32_t base_exponent) {
    return e3m0::LevelsOf(e3m0::ScaleOrigin(base_exponent) + scales[block]);
  }
  static constexpr uint32_t Code(float x, const Scale& levels, float) {
    const int32_t magnitude = Magnitude(x);
    if (magnitude < levels.least) return 0;
    const int32_t level = std::clamp((magnitude - levels.step) >> e3m0::kSignificandBits, 1, 7);
    return (std::bit_cast<uint32_t>(x) >> 31 << 3) | level;
  }
  static constexpr float Value(uint32_t code, const Scale& levels) {
    const uint32_t level = code & levels.mask;
    const uint32_t magnitude = level == 0 ? 0 : levels.origin + (level << e3m0::kSignificandBits);
    return std::bit_cast<float>((code >> 3 << 31) | magnitude);
  }
};

struct SearchedE3m0 : NearestE3m0 {
  template <typename Block>
  LONGHAUL_HOST_DEVICE static Scale Choose(const Block& block, uint32_t magnitude_max, int,
                                           uint32_t* index) {
    *index = e3m0::NearestScale(magnitude_max);
    if (*index != 0) *index = Search(block, *index, EnergyFactor(magnitude_max));
    return e3m0::LevelsOf(*index);
  }
  template <typename Block>
  LONGHAUL_HOST_DEVICE static uint32_t Search(const Block& block, int32_t nearest, float factor) {
    const int32_t first = std::max(nearest - e3m0::kSearchBelow, int32_t{e3m0::kScaleIndexMin});
    const int32_t last = std::min(nearest + e3m0::kSearchAbove, int32_t{e3m0::kScaleIndexMax});
    int32_t best = first;
    float best_error = ErrorEnergy<NearestE3m0>(block, e3m0::LevelsOf(first), factor);
    for (int32_t index = first + 1; index <= last; ++index) {
      const float error = ErrorEnergy<NearestE3m0>(block, e3m0::LevelsOf(index), factor);
      if (error < best_error) {
        best = index;
        best_error = error;
      }
    }
    return best;
  }
};

// Moves x up by a uniform random part of the step to the next level, then takes the level below. So
// the mean is x. The scale is rounded up, so that nothing saturates.
struct StochasticE3m0 : NearestE3m0 {
  static constexpr bool kStochastic = true;
  template <typename Block>
  LONGHAUL_HOST_DEVICE static Scale Choose(const Block&, uint32_t magnitude_max, int,
                                           uint32_t* index) {
    *index = e3m0::UpperScale(magnitude_max);
    return e3m0::LevelsOf(*index);
  }
  static constexpr uint32_t Code(float x, const Scale& levels, float noise_plus_one) {
    if (levels.mask == 0) return 0;
    const int32_t magnitude = Magnitude(x);
    // The width is the step from the level below x to the next one; from level 0 that is level 1.
    const int32_t octaves = (magnitude - levels.origin) & ~e3m0::kSignificandMask;
    const float step =
        std::bit_cast<float>(levels.origin + std::max(octaves, 1 << e3m0::kSignificandBits));
    // The product is exact: 4 bits times 17.
    const float noise = step * (noise_plus_one - 1.0f);
    const float moved = std::bit_cast<float>(magnitude) + noise;
    const int32_t steps = (std::bit_cast<int32_t>(moved) - levels.origin) >> e3m0::kSignificandBits;
    const int32_t level = std::clamp(steps, 0, 7);
    return level == 0 ? 0 : (std::bit_cast<uint32_t>(x) >> 31 << 3) | level;
  }
};

}  // namespace longhaul::kernels

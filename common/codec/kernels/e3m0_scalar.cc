// The meaning of e3m0 (common/codec/e3m0_format.h).
#include "common/codec/e3m0_format.h"
#include "common/codec/kernels/dense_scalar.h"

namespace longhaul::kernels {
namespace {

using e3m0::Levels;

struct Nearest : scalar::HalfBytes {
  static constexpr bool kStochastic = false;
  using Scale = Levels;

  static Levels Choose(const float*, uint32_t magnitude_max, int, uint32_t* index) {
    *index = e3m0::NearestScale(magnitude_max);
    return e3m0::LevelsOf(*index);
  }
  static Levels FromPlane(const CodedRun& run, int64_t block) {
    return e3m0::LevelsOf(e3m0::ScaleOrigin(run.base_exponent) + run.scales[block]);
  }
  static uint32_t Code(float x, const Levels& levels, float) {
    const int32_t magnitude = scalar::Magnitude(x);
    if (magnitude < levels.least) return 0;
    const int32_t level = std::clamp((magnitude - levels.step) >> e3m0::kSignificandBits, 1, 7);
    return (std::bit_cast<uint32_t>(x) >> 31 << 3) | level;
  }
  static float Value(uint32_t code, const Levels& levels) {
    const uint32_t level = code & levels.mask;
    const uint32_t magnitude = level == 0 ? 0 : levels.origin + (level << e3m0::kSignificandBits);
    return std::bit_cast<float>((code >> 3 << 31) | magnitude);
  }
};

struct Searched : Nearest {
  static Levels Choose(const float* u, uint32_t magnitude_max, int, uint32_t* index) {
    *index = e3m0::NearestScale(magnitude_max);
    if (*index != 0) *index = Search(u, *index, EnergyFactor(magnitude_max));
    return e3m0::LevelsOf(*index);
  }
  static uint32_t Search(const float* u, int32_t nearest, float factor) {
    const int32_t first = std::max(nearest - e3m0::kSearchBelow, e3m0::kScaleIndexMin);
    const int32_t last = std::min(nearest + e3m0::kSearchAbove, e3m0::kScaleIndexMax);
    int32_t best = first;
    float best_error = scalar::ErrorEnergy<Nearest>(u, e3m0::LevelsOf(first), factor);
    for (int32_t index = first + 1; index <= last; ++index) {
      const float error = scalar::ErrorEnergy<Nearest>(u, e3m0::LevelsOf(index), factor);
      if (error < best_error) {
        best = index;
        best_error = error;
      }
    }
    return best;
  }
};

// x is moved up by a uniform share of the step to the next level, then takes the level below: the
// mean is x. The scale is rounded up, so that nothing saturates.
struct Stochastic : Nearest {
  static constexpr bool kStochastic = true;
  static Levels Choose(const float*, uint32_t magnitude_max, int, uint32_t* index) {
    *index = e3m0::UpperScale(magnitude_max);
    return e3m0::LevelsOf(*index);
  }
  static uint32_t Code(float x, const Levels& levels, float noise_plus_one) {
    if (levels.mask == 0) return 0;
    const int32_t magnitude = scalar::Magnitude(x);
    // As wide as the step from the level below x to the next: from level 0 that is level 1.
    const int32_t octaves = (magnitude - levels.origin) & ~e3m0::kSignificandMask;
    const float step =
        std::bit_cast<float>(levels.origin + std::max(octaves, 1 << e3m0::kSignificandBits));
    // Exact: 4 bits times 17.
    const float noise = step * (noise_plus_one - 1.0f);
    const float moved = std::bit_cast<float>(magnitude) + noise;
    const int32_t steps = (std::bit_cast<int32_t>(moved) - levels.origin) >> e3m0::kSignificandBits;
    const int32_t level = std::clamp(steps, 0, 7);
    return level == 0 ? 0 : (std::bit_cast<uint32_t>(x) >> 31 << 3) | level;
  }
};

}  // namespace

DenseKernels E3m0Scalar(const CodecOptions& options) {
  if (options.search_scale) return scalar::KernelsOf<Searched>();
  if (options.stochastic) return scalar::KernelsOf<Stochastic>();
  return scalar::KernelsOf<Nearest>();
}

}  // namespace longhaul::kernels

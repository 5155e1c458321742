// The formats int8, int6 and int4: a signed integer an element and a two-byte step (scale_word.h)
// for each block; decoded = code * step, exact. Arithmetic that every kernel follows.
//
// The encoder divides the block's largest magnitude (one IEEE division) and rounds the quotient to
// the nearest step word; a code is x * (1 / step) (one division a block, one multiplication an
// element) rounded to nearest even and clamped. Stochastic: x * (1 / step) + d, d uniform in (-1/2,
// 1/2), is rounded instead, and the step is max / kMax rounded up, so that nothing saturates: the
// mean of the code is x / step.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include "common/codec/kernels/block.h"
#include "common/codec/scale_word.h"

namespace longhaul::integer {

// A step of max / 2^(bits - 1) uses all codes. Values near +max saturate at the largest code. Even
// so the error is smaller than with a step that leaves one code unused.
struct Int8 {
  static constexpr int kBits = 8;
  static constexpr int32_t kMin = -128, kMax = 127;
  static constexpr float kNearestDivisor = 128;
  static constexpr uint32_t kWordMax = scale_word::MaxFor(128);
};

struct Int6 {
  static constexpr int kBits = 6;
  static constexpr int32_t kMin = -32, kMax = 31;
  static constexpr float kNearestDivisor = 32;
  static constexpr uint32_t kWordMax = scale_word::MaxFor(32);
};

struct Int4 {
  static constexpr int kBits = 4;
  static constexpr int32_t kMin = -8, kMax = 7;
  static constexpr float kNearestDivisor = 8;
  static constexpr uint32_t kWordMax = scale_word::MaxFor(8);
};

// The step word for the quotient of the largest magnitude; 0 for a zero block.
template <typename Format>
constexpr uint32_t NearestStep(uint32_t magnitude_max) {
  if (magnitude_max < kernels::kCodedMin) return 0;
  const float max = std::bit_cast<float>(std::min(magnitude_max, uint32_t{kernels::kFiniteMax}));
  return std::min(scale_word::Nearest(max / Format::kNearestDivisor), uint32_t{Format::kWordMax});
}

template <typename Format>
constexpr uint32_t StochasticStep(uint32_t magnitude_max) {
  if (magnitude_max < kernels::kCodedMin) return 0;
  const float max = std::bit_cast<float>(std::min(magnitude_max, uint32_t{kernels::kFiniteMax}));
  return scale_word::RoundUp(max / static_cast<float>(Format::kMax), Format::kWordMax);
}

// Candidates of the scale search: max / 2^(bits - 1) times 22/32, 23/32, ..., 37/32, in ascending
// order. Of equally good ones the first is taken.
inline constexpr int kCandidates = 16;
template <typename Format>
constexpr uint32_t CandidateStep(uint32_t magnitude_max, int j) {
  if (magnitude_max < kernels::kCodedMin) return 0;
  const float max = std::bit_cast<float>(std::min(magnitude_max, uint32_t{kernels::kFiniteMax}));
  const float share = static_cast<float>(22 + j) / 32;
  return std::min(scale_word::Nearest(max / Format::kNearestDivisor * share),
                  uint32_t{Format::kWordMax});
}

struct Step {
  float value = 0;
  // 0 for a zero block; then its codes are 0.
  float inverse = 0;
};

constexpr Step StepOf(uint32_t word) {
  if (word == 0) return {};
  const float value = scale_word::Value(word);
  return {value, 1 / value};
}

}  // namespace longhaul::integer

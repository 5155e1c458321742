// The meaning of int8, int6 and int4 (common/codec/integer_format.h).
#pragma once

#include <algorithm>
#include <cmath>

#include "common/codec/integer_format.h"
#include "common/codec/kernels/dense_policy.h"

namespace longhaul::kernels {

template <typename Format>
struct NearestInteger {
  static constexpr int kCodeBits = Format::kBits, kScaleBytes = scale_word::kBytes;
  static constexpr bool kRelativeScales = false, kStochastic = false;
  using Scale = integer::Step;

  template <typename Block>
  LONGHAUL_HOST_DEVICE static Scale Choose(const Block&, uint32_t magnitude_max, int,
                                           uint32_t* word) {
    *word = integer::NearestStep<Format>(magnitude_max);
    return integer::StepOf(*word);
  }
  static constexpr Scale FromPlane(const uint8_t* scales, int64_t block, int32_t) {
    return integer::StepOf(scale_word::Load(scales, block));
  }
  LONGHAUL_HOST_DEVICE static uint32_t Code(float x, const Scale& step, float) {
    return Rounded(x * step.inverse);
  }
  // Rounds to nearest even (the mode of every thread), as two's complement. Inf and NaN must not be
  // converted to an integer; their code does not matter.
  LONGHAUL_HOST_DEVICE static uint32_t Rounded(float steps) {
    const float bounded = std::fabs(steps) < 1e6f ? steps : 0.0f;
    const int32_t code = std::clamp(static_cast<int32_t>(nearbyintf(bounded)),
                                    int32_t{Format::kMin}, int32_t{Format::kMax});
    return static_cast<uint32_t>(code) & ((1u << kCodeBits) - 1);
  }
  static constexpr float Value(uint32_t code, const Scale& step) {
    constexpr uint32_t kSign = 1u << (kCodeBits - 1);
    return static_cast<float>(static_cast<int32_t>(code ^ kSign) - static_cast<int32_t>(kSign)) *
           step.value;
  }
};

template <typename Format>
struct SearchedInteger : NearestInteger<Format> {
  using Scale = integer::Step;
  template <typename Block>
  LONGHAUL_HOST_DEVICE static Scale Choose(const Block& block, uint32_t magnitude_max, int,
                                           uint32_t* word) {
    const float factor = EnergyFactor(magnitude_max);
    float best_error = 0;
    for (int j = 0; j < integer::kCandidates; ++j) {
      const uint32_t candidate = integer::CandidateStep<Format>(magnitude_max, j);
      const float error =
          ErrorEnergy<NearestInteger<Format>>(block, integer::StepOf(candidate), factor);
      if (j == 0 || error < best_error) {
        *word = candidate;
        best_error = error;
      }
    }
    return integer::StepOf(*word);
  }
};

template <typename Format>
struct StochasticInteger : NearestInteger<Format> {
  static constexpr bool kStochastic = true;
  using Scale = integer::Step;
  template <typename Block>
  LONGHAUL_HOST_DEVICE static Scale Choose(const Block&, uint32_t magnitude_max, int,
                                           uint32_t* word) {
    *word = integer::StochasticStep<Format>(magnitude_max);
    return integer::StepOf(*word);
  }
  LONGHAUL_HOST_DEVICE static uint32_t Code(float x, const Scale& step, float noise_plus_one) {
    const float moved = x * step.inverse + (noise_plus_one - 1.5f);
    return NearestInteger<Format>::Rounded(moved);
  }
};

}  // namespace longhaul::kernels

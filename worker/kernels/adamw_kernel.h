// One fused pass of AdamW over contiguous arrays of n elements. An element's result does not depend
// on where it lies in the arrays, so any cut into subgroups, shards and threads gives the same
// bits.
#pragma once

#include <cstdint>

#include "common/base/thread_team.h"

namespace longhaul {

// As float32: beta1, beta2 and eps of Algorithm 2; keep, step_size and 1 / root of AdamWStep.
struct AdamWConstants {
  float gradient_scale, beta1, one_minus_beta1, beta2, one_minus_beta2, keep, step_size,
      inverse_root, eps;
  // Of the update: makes its rounding noise another one, also where nothing else changes.
  uint32_t noise;
};

// Arrays of n elements that do not overlap. uint16_t are the bits of bf16 numbers. Of each array
// that exists in both widths, the caller gives one; the other is null.
struct AdamWArrays {
  const float* gradients = nullptr;
  const uint16_t* narrow_gradients = nullptr;
  float* parameters = nullptr;
  // Receives the parameters after the update, rounded to nearest even. May be null.
  uint16_t* shadow = nullptr;
  float *moment = nullptr, *variance = nullptr;
  // Rounded stochastically: changes smaller than half a bf16 step then count on average. The noise
  // is derived from the bits of gradient and parameter, and from AdamWConstants::noise.
  uint16_t *narrow_moment = nullptr, *narrow_variance = nullptr;

  // The arrays from element `first` on.
  AdamWArrays From(int64_t first) const {
    const auto at = [first](auto* array) { return array == nullptr ? nullptr : array + first; };
    return {at(gradients), at(narrow_gradients), at(parameters),    at(shadow),
            at(moment),    at(variance),         at(narrow_moment), at(narrow_variance)};
  }
};

// Algorithm 2 of Loshchilov and Hutter for n elements, as AdamWStep writes it, in float32.
void AdamWKernel(const AdamWConstants& constants, int64_t n, const AdamWArrays& arrays);
// The same on the threads of a team. Null: on the calling thread.
inline void AdamWKernel(const AdamWConstants& constants, int64_t n, const AdamWArrays& arrays,
                        ThreadTeam* team) {
  ForParts(team, n, kLineGrain, [&](int64_t first, int64_t end) {
    AdamWKernel(constants, end - first, arrays.From(first));
  });
}

}  // namespace longhaul

// One fused pass of AdamW over contiguous arrays of n elements. An element's result does not depend
// on where it lies in the arrays, so any cut into subgroups, shards and threads gives the same bits.
#pragma once

#include <cstdint>

#include "common/base/thread_team.h"

namespace longhaul {

struct AdamWConstants {
  float gradient_scale, beta1, one_minus_beta1, beta2, one_minus_beta2, keep, step_size,
      inverse_root, eps;
};

// Of pairs one is null; uint16_t are the bits of bf16 numbers.
struct AdamWArrays {
  const float* gradients = nullptr;
  const uint16_t* narrow_gradients = nullptr;
  float* parameters = nullptr;
  uint16_t* shadow = nullptr;  // Null: none. The parameters after the update, to nearest even.
  float *moment = nullptr, *variance = nullptr;
  // Rounded stochastically, so that on the average also a change below half a bf16 step counts; the
  // noise is made of the bits of gradient and parameter.
  uint16_t *narrow_moment = nullptr, *narrow_variance = nullptr;

  // The arrays from element `first` on.
  AdamWArrays From(int64_t first) const {
    const auto at = [first](auto* array) { return array == nullptr ? nullptr : array + first; };
    return {at(gradients), at(narrow_gradients), at(parameters),    at(shadow),
            at(moment),    at(variance),         at(narrow_moment), at(narrow_variance)};
  }
};

void AdamWKernel(const AdamWConstants& constants, int64_t n, const AdamWArrays& arrays);
// On the threads of a team; null: on the calling one.
inline void AdamWKernel(const AdamWConstants& constants, int64_t n, const AdamWArrays& arrays,
                        ThreadTeam* team) {
  ForParts(team, n, kLineGrain, [&](int64_t first, int64_t end) {
    AdamWKernel(constants, end - first, arrays.From(first));
  });
}

}  // namespace longhaul

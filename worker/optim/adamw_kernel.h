// One fused pass of AdamW over contiguous fp32 arrays of n elements. An element's result does not
// depend on where it lies in the arrays, so any cut into runs and shards gives the same bits.
#pragma once

#include <cstdint>

namespace longhaul {

struct AdamWConstants {
  float gradient_scale, beta1, one_minus_beta1, beta2, one_minus_beta2, keep, step_size,
      inverse_root, eps;
};

void AdamWKernel(const AdamWConstants& constants, int64_t n, const float* gradients,
                 float* parameters, float* moment, float* variance);

}  // namespace longhaul

// AdamW as a loop over single elements, which the compiler must not turn into vectors.
#pragma once

#include <cstdint>

#include "worker/kernels/adamw_kernel.h"

namespace longhaul::benchmark {

// Arrays of n elements.
void PlainAdamW(const AdamWConstants& constants, int64_t n, const float* gradients,
                float* parameters, float* moment, float* variance);

}  // namespace longhaul::benchmark

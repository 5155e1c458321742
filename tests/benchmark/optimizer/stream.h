// The memory traffic of AdamW with next to no arithmetic, in plain SIMD: what it can reach at best.
#pragma once

#include <cstdint>

namespace longhaul::benchmark {

// Reads four arrays of n elements and writes the last three.
void Stream(int64_t n, const float* gradients, float* parameters, float* moment, float* variance);

}  // namespace longhaul::benchmark

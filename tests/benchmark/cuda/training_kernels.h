// A stand-in for a training step on a CUDA device: kernels bound by arithmetic and kernels bound by
// memory in turn, as the matrix products and the element-wise rest of a step are.
#pragma once

#include <cstdint>

#include "cuda_runtime_api.h"

namespace longhaul::benchmark {

// Enqueues the kernels of one step. `a` and `b`: device memory of `count` floats each.
cudaError_t EnqueueStep(float* a, float* b, int64_t count, cudaStream_t stream);

}  // namespace longhaul::benchmark

// The rank-order sum (rank_order_sum.h) on a CUDA device: the same bits.
#pragma once

#include <cstdint>

#include "cuda_runtime_api.h"

namespace longhaul {

inline constexpr int kCudaSumSourcesMax = 64;

template <typename T>
struct CudaSumSources {
  const T* first[kCudaSumSourcesMax];
  int count;
};

// Queues the sum. `count` is above 0.
cudaError_t LaunchRankOrderSum(const CudaSumSources<float>& sources, float* output, int64_t count,
                               cudaStream_t stream);
cudaError_t LaunchRankOrderSum(const CudaSumSources<double>& sources, double* output, int64_t count,
                               cudaStream_t stream);

}  // namespace longhaul

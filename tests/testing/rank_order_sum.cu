#include <algorithm>

#include "tests/testing/rank_order_sum_cuda.h"

namespace longhaul {
namespace {

constexpr int kThreads = 256;
constexpr int64_t kBlocksMax = 4096;

// Each element is read from all sources before it is written, since `output` may be one of them.
template <typename T>
__global__ void SumKernel(CudaSumSources<T> sources, T* output, int64_t count) {
  const int64_t step = int64_t{gridDim.x} * kThreads;
  for (int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x; i < count; i += step) {
    T sum = sources.first[0][i];
    for (int k = 1; k < sources.count; ++k) sum = sum + sources.first[k][i];
    output[i] = sum;
  }
}

template <typename T>
cudaError_t Launch(const CudaSumSources<T>& sources, T* output, int64_t count,
                   cudaStream_t stream) {
  const auto blocks =
      static_cast<unsigned>(std::min(kBlocksMax, (count + kThreads - 1) / kThreads));
  CudaSumSources<T> by_value = sources;
  void* arguments[] = {&by_value, &output, &count};
  return cudaLaunchKernel(reinterpret_cast<const void*>(SumKernel<T>), dim3(blocks), dim3(kThreads),
                          arguments, 0, stream);
}

}  // namespace

cudaError_t LaunchRankOrderSum(const CudaSumSources<float>& sources, float* output, int64_t count,
                               cudaStream_t stream) {
  return Launch(sources, output, count, stream);
}

cudaError_t LaunchRankOrderSum(const CudaSumSources<double>& sources, double* output, int64_t count,
                               cudaStream_t stream) {
  return Launch(sources, output, count, stream);
}

}  // namespace longhaul

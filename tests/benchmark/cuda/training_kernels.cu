#include "tests/benchmark/cuda/training_kernels.h"

namespace longhaul::benchmark {
namespace {

constexpr int kThreads = 256, kPairs = 8;

// Bound by arithmetic: many dependent multiplications and additions for each float that is read.
__global__ void Multiply(float* a) {
  const int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  float x = a[i], y = x + 1;
  for (int k = 0; k < 4096; ++k) {
    x = x * 0.999f + 0.001f;
    y = y * 0.998f + 0.002f;
  }
  a[i] = x + y;
}

// Bound by memory.
__global__ void Add(const float* a, float* b, int64_t count) {
  const int64_t stride = int64_t{gridDim.x} * kThreads;
  for (int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x; i < count; i += stride)
    b[i] = b[i] * 0.5f + a[i];
}

}  // namespace

cudaError_t EnqueueStep(float* a, float* b, int64_t count, cudaStream_t stream) {
  for (int pair = 0; pair < kPairs; ++pair) {
    Multiply<<<4096, kThreads, 0, stream>>>(a);
    Add<<<2048, kThreads, 0, stream>>>(a, b, count);
  }
  return cudaGetLastError();
}

}  // namespace longhaul::benchmark

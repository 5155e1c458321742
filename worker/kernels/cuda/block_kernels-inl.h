// The kernels behind block_kernels.h. What bounds them is memory: a thread reads and writes packs
// of 16 bytes where addresses and sizes allow, else single elements.
//
// CUDA code. A test compiles it for the CPU (tests/testing/cuda_emulation.h).
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#include "worker/kernels/cuda/block_kernels.h"

namespace longhaul::cuda {

// The threads of a thread block. Rotation gives a thread block to each position of each sequence.
// If a model has few heads, some of its threads have no work.
inline constexpr int kBlockThreads = 128;

// How a job is run: with `blocks` thread blocks of kBlockThreads.
template <typename Job>
struct KernelLaunch {
  void (*kernel)(Job job);
  uint32_t blocks = 0;
};

// bfloat16 is the upper half of a float32. Rounding to nearest even with integers turns what is too
// large into Inf and keeps Inf; a NaN might become a number, so it is replaced.
struct BFloat16 {
  uint16_t bits;
};

__device__ inline float Widen(float x) { return x; }
__device__ inline float Widen(BFloat16 x) {
  const uint32_t bits = uint32_t{x.bits} << 16;
  float wide;
  memcpy(&wide, &bits, sizeof(wide));
  return wide;
}

__device__ inline void Narrow(float x, float* out) { *out = x; }
__device__ inline void Narrow(float x, BFloat16* out) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof(bits));
  out->bits = (bits & 0x7fffffff) > 0x7f800000
                  ? uint16_t{0x7fc0}
                  : static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

template <typename T, int kCount>
struct alignas(sizeof(T) * kCount < 16 ? sizeof(T) * kCount : 16) Pack {
  T values[kCount];
};

template <int kCount, typename T>
__device__ Pack<T, kCount> LoadPack(const T* at) {
  return *reinterpret_cast<const Pack<T, kCount>*>(at);
}
template <int kCount, typename T>
__device__ void StorePack(const Pack<T, kCount>& pack, T* at) {
  *reinterpret_cast<Pack<T, kCount>*>(at) = pack;
}

template <typename T, int kCount>
__global__ void RotateKernel(RotateJob job) {
  const int batch = static_cast<int>(blockIdx.x) / job.positions;
  const int position = static_cast<int>(blockIdx.x) % job.positions;
  const int half = job.width / 2, packs = half / kCount;
  const int64_t first = batch * job.batch_stride + position * job.position_stride;
  const float* const cos = job.cos + int64_t{position} * job.width;
  const float* const sin = job.sin + int64_t{position} * job.width;
  for (int i = static_cast<int>(threadIdx.x); i < job.heads * packs; i += kBlockThreads) {
    const int element = i % packs * kCount;
    const int64_t at = first + i / packs * job.head_stride + element;
    const auto low = LoadPack<kCount>(static_cast<const T*>(job.x) + at);
    const auto high = LoadPack<kCount>(static_cast<const T*>(job.x) + at + half);
    const auto cosine = LoadPack<kCount>(cos + element), sine = LoadPack<kCount>(sin + element);
    Pack<T, kCount> low_out, high_out;
#pragma unroll
    for (int k = 0; k < kCount; ++k) {
      const float a = Widen(low.values[k]), b = Widen(high.values[k]);
      const float c = cosine.values[k], s = job.back ? -sine.values[k] : sine.values[k];
      Narrow(a * c - b * s, &low_out.values[k]);
      Narrow(b * c + a * s, &high_out.values[k]);
    }
    StorePack(low_out, static_cast<T*>(job.out) + at);
    StorePack(high_out, static_cast<T*>(job.out) + at + half);
  }
}

// Below -88 the power is Inf, and the sigmoid 0.
__device__ inline float Sigmoid(float z) { return 1 / (1 + expf(-z)); }

// The index of the thread's first element; less than the job's elements if it has one.
template <int kCount>
__device__ int64_t FirstElement() {
  return (int64_t{blockIdx.x} * kBlockThreads + threadIdx.x) * kCount;
}

template <typename T, int kCount>
__global__ void GateForwardKernel(GateJob job) {
  const int64_t at = FirstElement<kCount>();
  if (at >= job.elements) return;
  const auto gate = LoadPack<kCount>(static_cast<const T*>(job.gate) + at);
  const auto up = LoadPack<kCount>(static_cast<const T*>(job.up) + at);
  Pack<T, kCount> h;
#pragma unroll
  for (int k = 0; k < kCount; ++k) {
    const float z = Widen(gate.values[k]);
    Narrow(z * Sigmoid(z) * Widen(up.values[k]), &h.values[k]);
  }
  StorePack(h, static_cast<T*>(job.h) + at);
}

// With s = sigmoid(gate): silu' = s (1 + gate (1 - s)) = s + silu (1 - s).
template <typename T, int kCount>
__global__ void GateBackwardKernel(GateJob job) {
  const int64_t at = FirstElement<kCount>();
  if (at >= job.elements) return;
  const auto gate = LoadPack<kCount>(static_cast<const T*>(job.gate) + at);
  const auto up = LoadPack<kCount>(static_cast<const T*>(job.up) + at);
  const auto gradient = LoadPack<kCount>(static_cast<const T*>(job.h_gradient) + at);
  Pack<T, kCount> of_gate, of_up;
#pragma unroll
  for (int k = 0; k < kCount; ++k) {
    const float z = Widen(gate.values[k]), slope = Widen(gradient.values[k]);
    const float s = Sigmoid(z), silu = z * s;
    Narrow(slope * Widen(up.values[k]) * (s + silu * (1 - s)), &of_gate.values[k]);
    Narrow(slope * silu, &of_up.values[k]);
  }
  StorePack(of_gate, static_cast<T*>(job.gate_gradient) + at);
  StorePack(of_up, static_cast<T*>(job.up_gradient) + at);
}

// Whether an address, or a distance in elements of T, is one of packs.
template <typename T>
bool OfPacks(const void* address) {
  return reinterpret_cast<uintptr_t>(address) % 16 == 0;
}
template <typename T>
bool OfPacks(int64_t elements) {
  return elements * sizeof(T) % 16 == 0;
}

template <typename T>
KernelLaunch<RotateJob> RotateLaunchOf(const RotateJob& job) {
  constexpr int kCount = 16 / sizeof(T);
  const bool packed = OfPacks<T>(job.x) && OfPacks<T>(job.out) && OfPacks<float>(job.cos) &&
                      OfPacks<float>(job.sin) && OfPacks<T>(int64_t{job.width / 2}) &&
                      OfPacks<T>(job.batch_stride) && OfPacks<T>(job.head_stride) &&
                      OfPacks<T>(job.position_stride);
  const bool empty = job.heads == 0 || job.width == 0;
  return {packed ? RotateKernel<T, kCount> : RotateKernel<T, 1>,
          empty ? 0 : static_cast<uint32_t>(job.batches) * static_cast<uint32_t>(job.positions)};
}

inline KernelLaunch<RotateJob> RotateLaunch(const RotateJob& job) {
  return job.element == BlockElement::kFloat32 ? RotateLaunchOf<float>(job)
                                               : RotateLaunchOf<BFloat16>(job);
}

// A thread for each pack, or for each element.
template <typename T>
KernelLaunch<GateJob> GateLaunchOf(const GateJob& job, bool packed, void (*of_packs)(GateJob),
                                   void (*of_elements)(GateJob)) {
  packed = packed && OfPacks<T>(job.gate) && OfPacks<T>(job.up) && OfPacks<T>(job.elements);
  const int64_t of_a_block = int64_t{kBlockThreads} * (packed ? 16 / sizeof(T) : 1);
  return {packed ? of_packs : of_elements,
          static_cast<uint32_t>((job.elements + of_a_block - 1) / of_a_block)};
}

template <typename T>
KernelLaunch<GateJob> GateForwardLaunchOf(const GateJob& job) {
  return GateLaunchOf<T>(job, OfPacks<T>(job.h), GateForwardKernel<T, 16 / sizeof(T)>,
                         GateForwardKernel<T, 1>);
}

inline KernelLaunch<GateJob> GateForwardLaunch(const GateJob& job) {
  return job.element == BlockElement::kFloat32 ? GateForwardLaunchOf<float>(job)
                                               : GateForwardLaunchOf<BFloat16>(job);
}

template <typename T>
KernelLaunch<GateJob> GateBackwardLaunchOf(const GateJob& job) {
  return GateLaunchOf<T>(
      job,
      OfPacks<T>(job.h_gradient) && OfPacks<T>(job.gate_gradient) && OfPacks<T>(job.up_gradient),
      GateBackwardKernel<T, 16 / sizeof(T)>, GateBackwardKernel<T, 1>);
}

inline KernelLaunch<GateJob> GateBackwardLaunch(const GateJob& job) {
  return job.element == BlockElement::kFloat32 ? GateBackwardLaunchOf<float>(job)
                                               : GateBackwardLaunchOf<BFloat16>(job);
}

}  // namespace longhaul::cuda

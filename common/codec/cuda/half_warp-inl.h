// Sixteen threads that work on one block together. Thread l holds the elements l + 16 k. So loads
// are coalesced, thread l alone makes word l of the packed codes, and the sums of kernels/block.h
// are one addition for each row and then exchanges between threads.
//
// The two halves of a warp may take different branches, so an exchange names only the threads of
// its half.
//
// CUDA code. A test compiles it for the CPU (tests/testing/cuda_emulation.h).
#pragma once

#include <algorithm>
#include <cstdint>

#include "common/codec/kernels/block.h"
#include "common/codec/kernels/dense_policy.h"
#include "common/layout/fragment_layout.h"

namespace longhaul::cuda {

using kernels::kLanes;

inline constexpr int kRows = kBlockElements / kLanes;
// The sizes of a thread block: it works on as many blocks at once as a chunk of topk2 has.
inline constexpr int kThreads = 512, kHalfWarps = kThreads / kLanes;

struct HalfWarp {
  int index, lane;
  // Its threads in their warp.
  uint32_t mask;

  __device__ HalfWarp()
      : index(threadIdx.x / kLanes),
        lane(threadIdx.x % kLanes),
        mask(0xffffu << (threadIdx.x & kLanes)) {}

  // The result is the same in all threads, bit for bit: each exchange adds the two numbers that
  // halving adds, and addition is commutative.
  __device__ float Sum(float x) const {
    for (int half = kLanes / 2; half > 0; half /= 2) x += __shfl_xor_sync(mask, x, half, kLanes);
    return x;
  }
  __device__ uint32_t Max(uint32_t x) const {
    for (int half = kLanes / 2; half > 0; half /= 2)
      x = std::max(x, __shfl_xor_sync(mask, x, half, kLanes));
    return x;
  }
  // The value of the lane whose number differs in the bits of `distance`.
  __device__ uint32_t Exchange(uint32_t x, int distance) const {
    return __shfl_xor_sync(mask, x, distance, kLanes);
  }
  __device__ uint32_t Neighbour(uint32_t x) const { return Exchange(x, 1); }
  // One bit for each lane.
  __device__ uint32_t Ballot(bool yes) const {
    return __ballot_sync(mask, yes) >> (threadIdx.x & kLanes) & 0xffff;
  }
};

// A thread's part of values that a half-warp holds: a Block of dense_policy.h.
template <int kCount>
struct LaneValues {
  HalfWarp self;
  float u[kCount];

  __device__ int Place(int row) const { return self.lane + kLanes * row; }

  template <typename Term>
  __device__ float Sum(Term term) const {
    float sum = 0;
#pragma unroll
    for (int row = 0; row < kCount; ++row) sum += term(u[row], Place(row));
    return self.Sum(sum);
  }
  __device__ uint32_t MagnitudeMax() const {
    uint32_t max = 0;
#pragma unroll
    for (int row = 0; row < kCount; ++row) max = std::max(max, kernels::Magnitude(u[row]));
    return self.Max(max);
  }
};
using LaneBlock = LaneValues<kRows>;

}  // namespace longhaul::cuda

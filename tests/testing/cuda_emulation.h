// Runs CUDA kernels on the CPU: the threads of a thread block are fibers of one thread. A test
// includes this before the kernels' sources (common/codec/cuda/*-inl.h). Then they are ordinary
// code for the host compiler, its debugger and its sanitizers.
//
// It emulates what the kernels use, with CUDA's rules: every thread of the thread block must reach
// a barrier, and every thread of the mask must reach an exchange within a warp, at the same call
// with the same mask. Memory races between two barriers are not noticed. But Launch runs threads in
// a given order, so two different orders show many of them.
//
// Must not be used from several threads, since __shared__ is static.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"

namespace longhaul::cuda_emulation {

enum class Order { kForwards, kBackwards };

// Runs `kernel` once in each of `threads` threads of `blocks` thread blocks, one thread block after
// the other. INTERNAL: the threads diverged (they wait for each other for ever); the message says
// which thread waits where. An emulated thread has 64 KiB of stack.
absl::Status Launch(int blocks, int threads, Order order, absl::FunctionRef<void()> kernel);

// Where the running thread is.
struct Index {
  unsigned x = 0;
};
extern Index thread_index, block_index;

enum class Meeting { kBarrier, kWarp, kShuffleXor, kBallot, kAdd };

// Waits for the threads of `mask` in its own warp (kBarrier: in the thread block). Returns the
// value of the lane `argument` away (kShuffleXor), a bit for each lane whose value is not zero
// (kBallot), or the sum of the values (kAdd, of 32 bits).
uint64_t Meet(Meeting what, uint32_t mask, int argument, uint64_t value);

template <typename T>
T ShuffleXor(uint32_t mask, T value, int argument) {
  static_assert(sizeof(T) <= sizeof(uint64_t));
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof(T));
  bits = Meet(Meeting::kShuffleXor, mask, argument, bits);
  std::memcpy(&value, &bits, sizeof(T));
  return value;
}

}  // namespace longhaul::cuda_emulation

// NOLINTBEGIN: CUDA's names.
#define __device__
#define __global__
#define __launch_bounds__(...)
#define __shared__ static
#define threadIdx ::longhaul::cuda_emulation::thread_index
#define blockIdx ::longhaul::cuda_emulation::block_index

inline void __syncthreads() {
  longhaul::cuda_emulation::Meet(longhaul::cuda_emulation::Meeting::kBarrier, 0, 0, 0);
}
inline void __syncwarp(uint32_t mask) {
  longhaul::cuda_emulation::Meet(longhaul::cuda_emulation::Meeting::kWarp, mask, 0, 0);
}
// `width` is a power of two above `lane_mask`, so it has no effect.
template <typename T>
T __shfl_xor_sync(uint32_t mask, T value, int lane_mask, int width) {
  return longhaul::cuda_emulation::ShuffleXor(mask, value, lane_mask);
}
inline uint32_t __ballot_sync(uint32_t mask, bool yes) {
  return static_cast<uint32_t>(
      longhaul::cuda_emulation::Meet(longhaul::cuda_emulation::Meeting::kBallot, mask, 0, yes));
}
inline uint32_t __reduce_add_sync(uint32_t mask, uint32_t value) {
  return static_cast<uint32_t>(
      longhaul::cuda_emulation::Meet(longhaul::cuda_emulation::Meeting::kAdd, mask, 0, value));
}
inline int __popc(uint32_t bits) { return std::popcount(bits); }
inline int __ffs(int bits) { return __builtin_ffs(bits); }
template <typename T>
void atomicMin(T* at, T value) {
  *at = std::min(*at, value);
}
template <typename T>
void atomicMax(T* at, T value) {
  *at = std::max(*at, value);
}
template <typename T>
void atomicOr(T* at, T value) {
  *at |= value;
}
// NOLINTEND

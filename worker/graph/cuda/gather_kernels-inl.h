// The kernel behind gather_kernels.h. What bounds it is the link: each line of host memory is asked
// for once (common/graph/gather_index.h), with loads of up to 16 bytes, and several of them are
// under way in each thread.
//
// CUDA code. A test compiles it for the CPU (tests/testing/cuda_emulation.h).
#pragma once

#include <cstdint>

#include "common/graph/gather_index.h"
#include "worker/graph/cuda/gather_kernels.h"

namespace longhaul::cuda {

inline constexpr int kGatherThreads = 256;
// Accesses that a thread begins before it waits for the first one.
inline constexpr int kGatherAhead = 4;

struct GatherLaunch {
  void (*kernel)(GatherJob job, GatherShape shape, int64_t groups);
  GatherShape shape;
  uint32_t blocks = 0;
  // Groups of shape.lanes threads; each takes a row at a time.
  int64_t groups = 0;
};

template <int kBytes>
struct alignas(kBytes) GatherUnitOf {
  uint8_t bytes[kBytes];
};

template <int kBytes>
__global__ void GatherRowsKernel(GatherJob job, GatherShape shape, int64_t groups) {
  using Unit = GatherUnitOf<kBytes>;
  const int64_t thread = int64_t{blockIdx.x} * kGatherThreads + threadIdx.x;
  const int lane = static_cast<int>(thread % shape.lanes);
  for (int64_t i = thread / shape.lanes; i < job.count; i += groups) {
    const uint8_t* const row = job.table + job.ids[i] * job.row_bytes;
    uint8_t* const out = job.out + (job.places == nullptr ? i : job.places[i]) * job.row_bytes;
    const auto address = reinterpret_cast<uintptr_t>(row);
    const int64_t passes = GatherPasses(shape, address);
    for (int64_t pass = 0; pass < passes; pass += kGatherAhead) {
      Unit units[kGatherAhead];
#pragma unroll
      for (int k = 0; k < kGatherAhead; ++k) {
        const int64_t byte = GatherByte(shape, address, pass + k, lane);
        if (GatherReads(shape, byte)) units[k] = *reinterpret_cast<const Unit*>(row + byte);
      }
#pragma unroll
      for (int k = 0; k < kGatherAhead; ++k) {
        const int64_t byte = GatherByte(shape, address, pass + k, lane);
        if (GatherReads(shape, byte)) *reinterpret_cast<Unit*>(out + byte) = units[k];
      }
    }
  }
}

inline GatherLaunch GatherLaunchOf(const GatherJob& job) {
  GatherLaunch launch{.kernel = GatherRowsKernel<16>};
  const int unit = GatherUnit(reinterpret_cast<uintptr_t>(job.table),
                              reinterpret_cast<uintptr_t>(job.out), job.row_bytes);
  if (unit == 8) launch.kernel = GatherRowsKernel<8>;
  if (unit == 4) launch.kernel = GatherRowsKernel<4>;
  if (unit == 2) launch.kernel = GatherRowsKernel<2>;
  if (unit == 1) launch.kernel = GatherRowsKernel<1>;
  launch.shape = GatherShapeOf(job.row_bytes, unit);
  if (!job.aligned) launch.shape.aligned = false;
  if (job.count == 0 || job.row_bytes == 0) return launch;
  const int64_t of_a_block = kGatherThreads / launch.shape.lanes;
  const int64_t needed = (job.count + of_a_block - 1) / of_a_block;
  const int64_t allowed = job.threads > kGatherThreads ? job.threads / kGatherThreads : 1;
  launch.blocks = static_cast<uint32_t>(needed < allowed ? needed : allowed);
  launch.groups = launch.blocks * of_a_block;
  return launch;
}

}  // namespace longhaul::cuda

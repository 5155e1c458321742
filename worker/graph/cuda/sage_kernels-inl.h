// The kernels behind sage_kernels.h. A thread has elements of its own, and neighboring threads
// neighboring columns, so that rows are read in whole lines.
//
// CUDA code. A test compiles it for the CPU (tests/testing/cuda_emulation.h).
#pragma once

#include <cmath>
#include <cstdint>

#include "common/graph/dropout_bits.h"
#include "worker/graph/cuda/sage_kernels.h"

namespace longhaul::cuda {

inline constexpr int kSageThreads = 256;
// Loads that a thread begins before it adds the first one.
inline constexpr int kSageAhead = 4;

template <typename Job>
struct SageLaunch {
  void (*kernel)(Job job) = nullptr;
  uint32_t blocks = 0;
};

__device__ inline int64_t SageThread() { return int64_t{blockIdx.x} * kSageThreads + threadIdx.x; }

__global__ inline void SumKernel(AggregateJob job) {
  const int64_t target = SageThread() / job.columns, column = SageThread() % job.columns;
  if (target >= job.targets) return;
  const int64_t begin = job.indptr[target], end = job.indptr[target + 1];
  float sum = 0;
  for (int64_t i = begin; i < end; i += kSageAhead) {
    float values[kSageAhead];
#pragma unroll
    for (int k = 0; k < kSageAhead; ++k)
      if (i + k < end) values[k] = job.x[job.source_rows[i + k] * job.columns + column];
#pragma unroll
    for (int k = 0; k < kSageAhead; ++k)
      if (i + k < end) sum += values[k];
  }
  if (job.aggregator == GraphAggregator::kMean && end - begin > 1)
    sum /= static_cast<float>(end - begin);
  job.out[target * job.columns + column] = sum;
}

__global__ inline void MaxKernel(AggregateJob job) {
  const int64_t target = SageThread() / job.columns, column = SageThread() % job.columns;
  if (target >= job.targets) return;
  float best = 0;
  int64_t winner = -1;
  for (int64_t i = job.indptr[target]; i < job.indptr[target + 1]; ++i) {
    const float value = job.x[job.source_rows[i] * job.columns + column];
    // A value that is no number is kept, so that it is seen.
    if (winner >= 0 && !(value > best) && value == value) continue;
    best = value;
    winner = i;
  }
  job.out[target * job.columns + column] = best;
  job.winners[target * job.columns + column] = static_cast<int32_t>(winner);
}

__global__ inline void AggregateBackKernel(AggregateBackJob job) {
  const int64_t source = SageThread() / job.columns, column = SageThread() % job.columns;
  if (source >= job.sources) return;
  float sum = 0;
  for (int64_t i = job.starts[source]; i < job.starts[source + 1]; ++i) {
    const int64_t target = job.edge_targets[i];
    if (target >= job.targets) break;
    const int64_t at = target * job.columns + column;
    if (job.aggregator == GraphAggregator::kMax) {
      if (job.winners[at] == job.edges[i]) sum += job.gradient[at];
      continue;
    }
    const int64_t degree = job.indptr[target + 1] - job.indptr[target];
    const float scale =
        job.aggregator == GraphAggregator::kMean ? 1.0F / static_cast<float>(degree) : 1.0F;
    sum += job.gradient[at] * scale;
  }
  job.of_x[source * job.columns + column] = sum;
}

__global__ inline void DropoutKernel(DropoutJob job) {
  const int64_t words = (job.columns + kDropoutOfAWord - 1) / kDropoutOfAWord;
  const int64_t row = SageThread() / words, first = SageThread() % words * kDropoutOfAWord;
  if (row >= job.rows) return;
  const uint64_t word = DropoutWord(DropoutRow(job.key, job.layer, job.nodes[row]), first);
  for (int64_t i = 0; i < kDropoutOfAWord && first + i < job.columns; ++i)
    job.mask[row * job.columns + first + i] = DropoutDrops(word, i, job.dropped) ? 0.0F : job.kept;
}

// A thread for each of `elements`.
inline uint32_t SageBlocks(int64_t elements) {
  return static_cast<uint32_t>((elements + kSageThreads - 1) / kSageThreads);
}

inline SageLaunch<AggregateJob> SageLaunchOf(const AggregateJob& job) {
  return {job.aggregator == GraphAggregator::kMax ? &MaxKernel : &SumKernel,
          SageBlocks(job.targets * job.columns)};
}
inline SageLaunch<AggregateBackJob> SageLaunchOf(const AggregateBackJob& job) {
  return {&AggregateBackKernel, SageBlocks(job.sources * job.columns)};
}
inline SageLaunch<DropoutJob> SageLaunchOf(const DropoutJob& job) {
  return {&DropoutKernel,
          SageBlocks(job.rows * ((job.columns + kDropoutOfAWord - 1) / kDropoutOfAWord))};
}

}  // namespace longhaul::cuda

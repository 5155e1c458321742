// The parts of a GraphSAGE layer that PyTorch has no fitting operator for, on a CUDA device: what
// neighbors pass to nodes, and which values dropout keeps. The results are those of
// worker/model/aggregation.h: sums are taken in the order of the edges, without atomic operations,
// so they are the same in every run. An interface: the CUDA part is in the module
// longhaul_cuda_gather; tests have an emulation that runs the kernels on the CPU at once.
//
// Thread-safe. Nothing waits: a kernel runs after the works of the stream that the caller gives.
// All pointers are device memory, which must stay valid until then. INTERNAL: the launch failed.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/layout/graph_sage_layout.h"

namespace longhaul {

// See Aggregate of worker/model/aggregation.h.
struct AggregateJob {
  GraphAggregator aggregator = GraphAggregator::kMean;
  const float* x = nullptr;
  int64_t columns = 0, targets = 0;
  const int64_t* indptr = nullptr;
  const int32_t* source_rows = nullptr;
  float* out = nullptr;
  // For kMax [targets, columns]: the edge that each maximum is from; -1: none.
  int32_t* winners = nullptr;
};

// The gradient of x [sources, columns], of that of out. The edges of source row s are those at
// starts[s] to starts[s + 1] - 1 of `edges`, ascending; edge_targets are their targets. Edges of
// targets from `targets` on, which come last, do not count.
struct AggregateBackJob {
  GraphAggregator aggregator = GraphAggregator::kMean;
  const float* gradient = nullptr;
  int64_t columns = 0, targets = 0, sources = 0;
  const int64_t* indptr = nullptr;
  const int64_t* starts = nullptr;
  const int32_t *edges = nullptr, *edge_targets = nullptr;
  const int32_t* winners = nullptr;
  float* of_x = nullptr;
};

// mask [rows, columns]: 0 or `kept`. See common/graph/dropout_bits.h.
struct DropoutJob {
  uint64_t key = 0;
  int64_t layer = 0, dropped = 0;
  float kept = 1;
  const int64_t* nodes = nullptr;
  int64_t rows = 0, columns = 0;
  float* mask = nullptr;
};

class SageKernels {
 public:
  virtual ~SageKernels() = default;

  // `stream`: a cudaStream_t of the thread's current device. Jobs without elements do nothing.
  virtual absl::Status Aggregate(const AggregateJob& job, void* stream) const = 0;
  virtual absl::Status AggregateBack(const AggregateBackJob& job, void* stream) const = 0;
  virtual absl::Status Dropout(const DropoutJob& job, void* stream) const = 0;
};

// The kernels of the module longhaul_cuda_gather, which stay until the process ends. Errors and
// `folder`: see LoadCudaFunction.
absl::StatusOr<const SageKernels*> LoadCudaSageKernels(const std::string& folder = "");

}  // namespace longhaul

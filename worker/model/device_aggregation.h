// The graph's part of a GraphSAGE layer (aggregation.h) by a device's own kernels. The results are
// those of aggregation.h, in every run, except for rounding. Thread-safe. Throw as torch does, also
// if a kernel cannot be launched. `kernels` must outlive the graph of autograd.
#pragma once

#include <cstdint>

#include "ATen/core/Tensor.h"
#include "common/layout/graph_sage_layout.h"
#include "worker/graph/cuda/sage_kernels.h"

namespace longhaul {

// Edges by the rows that they are from: see AggregateBackJob. All on the device. Undefined for a
// layer whose input is not differentiated.
struct EdgesBySource {
  at::Tensor starts, edges, targets;
};

// As Aggregate of aggregation.h. All on the device.
at::Tensor Aggregate(const SageKernels& kernels, const at::Tensor& x, const at::Tensor& indptr,
                     const at::Tensor& source_rows, const EdgesBySource& by_source,
                     GraphAggregator aggregator);

// As DropoutMask of aggregation.h. `nodes`: on the device.
at::Tensor DropoutMask(const SageKernels& kernels, uint64_t key, int64_t layer,
                       const at::Tensor& nodes, int64_t columns, double rate);

}  // namespace longhaul

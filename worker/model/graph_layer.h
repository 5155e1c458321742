// A layer of a graph model for many nodes with all their neighbors, some nodes at a time: besides
// its input and its output it takes the memory of a few thousand rows.
#pragma once

#include <cstdint>

#include "ATen/core/Tensor.h"
#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "common/layout/graph_sage_layout.h"
#include "worker/model/staged_batch.h"

namespace longhaul {

// A graph in host memory; it may be the mapping of a file.
struct WholeGraph {
  int64_t nodes = 0, columns = 0;
  // Row by row.
  const float* features = nullptr;
  // nodes + 1, and the source of each edge, in one of two widths; the other is null.
  absl::Span<const int64_t> indptr;
  const int32_t* sources = nullptr;
  const int64_t* wide_sources = nullptr;
};

// The batch of an evaluation, or of predictions, which have no labels: views of the graph and of
// the spans, which outlive it.
StagedBatch BatchByNodes(const WholeGraph& graph, absl::Span<const int64_t> targets,
                         absl::Span<const int64_t> target_ends, absl::Span<const int64_t> labels);

// What the layer gives for some nodes: of their own rows, and of what their neighbors pass.
using LayerOfRows = absl::FunctionRef<at::Tensor(const at::Tensor& own, const at::Tensor& passed)>;

// A row for each target of layer `unit` of an evaluation's batch (worker/model/graph_batch.h), in
// host memory. `x`: the result for the layer before; the first layer ignores it. Without gradients.
// Throws as torch does, also if the graph's arrays have changed and are no graph now.
at::Tensor LayerByNodes(int unit, const at::Tensor& x, const StagedBatch& batch,
                        GraphAggregator aggregator, LayerOfRows layer);

}  // namespace longhaul

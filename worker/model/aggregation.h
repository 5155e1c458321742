// Sums what neighbors pass to nodes: the graph's part of a GraphSAGE layer.
#pragma once

#include <cstdint>

#include "ATen/core/Tensor.h"
#include "absl/types/span.h"
#include "common/layout/graph_sage_layout.h"

namespace longhaul {

// Row t of the result is the mean, sum or maximum (of each column) of the rows source_rows[i] of
// `x`, with i from indptr[t] to indptr[t + 1] - 1, and zero if there are none. `x`: float32 [rows,
// columns]; indptr: int64 [targets + 1]; source_rows: int32; all in host memory. Differentiable in
// `x`; of equal maxima the first one gets the gradient. Sums are taken in the order of the edges,
// for any number of threads, forward and backward. Throws as torch does.
at::Tensor Aggregate(const at::Tensor& x, const at::Tensor& indptr, const at::Tensor& source_rows,
                     GraphAggregator aggregator);

// The same sums in the same order, without a gradient, of tables with any number of rows.
at::Tensor AggregateRows(const at::Tensor& x, absl::Span<const int64_t> indptr,
                         absl::Span<const int64_t> source_rows, GraphAggregator aggregator);

// Which values dropout keeps: float32 [rows, columns], each 0 or 1 / (1 - rate), with the rate in
// steps of 1/65536. A pure function of (key, layer, node, column). `nodes`: int64 [rows].
at::Tensor DropoutMask(uint64_t key, int64_t layer, const at::Tensor& nodes, int64_t columns,
                       double rate);

}  // namespace longhaul

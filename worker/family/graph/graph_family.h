// Graph models: GraphSAGE on sampled neighborhoods of a graph at this site. Without torch.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "common/layout/graph_sage_layout.h"
#include "worker/data/data_warning.h"
#include "worker/family/graph/feature_options.h"
#include "worker/family/graph/link_batches.h"
#include "worker/family/open_family.h"
#include "worker/graph/cuda/gather_kernels.h"
#include "worker/graph/cuda/sage_kernels.h"

namespace longhaul {

// For a device. Null: those of CUDA's module.
struct GraphKernels {
  const GatherKernels* gather = nullptr;
  const SageKernels* sage = nullptr;
};

struct GraphOptions {
  GraphSageShape shape;
  // The pool's ordinal in the job. Pools take their seeds in other orders.
  int64_t pool = 0;
  // The field of the spec that names the graph, for errors; and its folder.
  std::string field, path;
  FeatureOptions features;
  // Training reads only edges between training nodes.
  bool training_edges = false;
  // Links are predicted, not classes; the shape says so, too.
  std::optional<LinkOptions> links;
  // The schema digest that the graph must have. Empty: any with the shape's columns and classes.
  std::string schema;
  // Threads that sample and gather.
  int threads = 1;
  // Is called where the graph is suspicious, and where features are not read as `features` says.
  // May be empty.
  std::function<void(const DataWarning&)> on_warning;
  GraphKernels kernels;
};

// Errors of opening it: those of GraphFolder::Open, LayOutGraphSage and OpenFeatures; also
// INVALID_ARGUMENT: the graph has other columns, classes or names than the job's, no labelled
// training or validation nodes, or, for links, no pairs. Those of the graph are about the field
// (status_marks.h).
OpenFamily GraphFamily(GraphOptions options);

}  // namespace longhaul

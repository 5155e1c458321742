// For which nodes each layer of a GraphSAGE model must be computed, so that the last one gives the
// seeds, with all neighbors. Each node comes once in a layer, however many read it.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/graph/graph_folder.h"

namespace longhaul {

struct LayerTargets {
  // The targets of layer 0, then those of layer 1, and so on; ascending within a layer. Those of
  // the last layer are the seeds.
  std::vector<int64_t> nodes;
  // Where each layer ends.
  std::vector<int64_t> ends;
};

// `seeds`: ascending and distinct. Takes a bit for each node besides the result, which has at most
// `layers` times all nodes. INVALID_ARGUMENT: a seed is not a node. DATA_LOSS: the graph's arrays
// have changed, and are no graph now.
absl::StatusOr<LayerTargets> FindLayerTargets(const GraphEdges& edges,
                                              absl::Span<const int64_t> seeds, int layers);

}  // namespace longhaul

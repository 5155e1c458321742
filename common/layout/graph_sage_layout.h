// The parameters of a GraphSAGE model: a unit for each layer. Pure.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "common/layout/model_layout.h"

namespace longhaul {

enum class GraphAggregator { kMean, kSum, kMax };

// Fields as in GraphSageSpec (proto/longhaul/v1/model.proto), with all defaults filled in.
struct GraphSageShape {
  int64_t columns = 0, hidden = 256, classes = 0;
  // One for each layer. The first is for the hop next to the seeds, so for the last layer.
  std::vector<int64_t> fanout;
  GraphAggregator aggregator = GraphAggregator::kMean;
  double dropout = 0.5;
  bool normalize = false, layer_norm = false;
  // The last layer gives `hidden` columns, whose products are scores of links; no classes.
  bool links = false;

  int layers() const { return static_cast<int>(fanout.size()); }
  int64_t inputs(int layer) const { return layer == 0 ? columns : hidden; }
  int64_t outputs(int layer) const { return layer + 1 == layers() && !links ? classes : hidden; }
};

inline constexpr int64_t kGraphLayersMax = 8, kGraphHiddenMax = 65536;
inline constexpr int64_t kGraphFanoutMax = 1 << 20;

// The places of a unit's tensors. Those of the norm exist in hidden layers with layer_norm.
enum GraphSageTensor { kSelfWeight, kNeighborWeight, kSelfBias, kNormWeight, kNormBias };

// "layer 0" reads the features of nodes, the last layer gives classes, or rows for links. Names and
// shapes are those of DGL's SAGEConv in a ModuleList: layers.0.fc_self.weight and
// layers.0.fc_neigh.weight [outputs, inputs], layers.0.fc_self.bias; norms.0.weight and
// norms.0.bias. The matrices that give classes are an output projection, so no hidden matrices.
// INVALID_ARGUMENT: a size is out of range; the message begins with the field's name.
absl::StatusOr<ModelLayout> LayOutGraphSage(const GraphSageShape& shape);

}  // namespace longhaul

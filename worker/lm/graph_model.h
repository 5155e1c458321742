// A GraphSAGE model for use, not for training: the classes of nodes, or rows for links. It computes
// on the CPU in float32, layer by layer with all neighbors, as evaluations of jobs do. Callers see
// no tensors.
#pragma once

#include <cstdint>
#include <memory>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/graph/graph_folder.h"
#include "common/layout/graph_sage_layout.h"
#include "common/layout/initial_parameters.h"

namespace longhaul {

class GraphModel {
 public:
  // Reads all parameters, and may return the errors of that. INVALID_ARGUMENT: an impossible shape.
  static absl::StatusOr<std::unique_ptr<GraphModel>> Load(const GraphSageShape& shape,
                                                          const InitialParameters& parameters,
                                                          int threads);
  ~GraphModel();

  const GraphSageShape& shape() const;

  // Rows for some of the nodes, in their order: probabilities [nodes, classes], and the input of
  // the last layer [nodes, hidden] (of a model with one layer, the features). Of a model of links:
  // no probabilities, and what the last layer gives, whose products are scores.
  struct Rows {
    int64_t first = 0, count = 0;
    absl::Span<const float> probabilities, embeddings;
  };
  // `nodes`: ascending and distinct; at least one. The graph has the model's columns. Blocks.
  // DATA_LOSS: a value is not finite, or the graph changed meanwhile. RESOURCE_EXHAUSTED (memory),
  // INTERNAL (torch); and those of `take`.
  absl::Status Predict(const GraphFolder& graph, absl::Span<const int64_t> nodes,
                       absl::FunctionRef<absl::Status(const Rows&)> take) const;

 private:
  class Weights;
  explicit GraphModel(std::unique_ptr<Weights> weights);

  const std::unique_ptr<Weights> weights_;
};

}  // namespace longhaul

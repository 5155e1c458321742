// Forward and backward of one unit of a model by autograd, cut off from the units around it: its
// output is detached from the graph and becomes the next unit's input. Throws as torch does.
#pragma once

#include <vector>

#include "ATen/core/Tensor.h"
#include "absl/strings/string_view.h"
#include "common/layout/backward_gathers.h"
#include "worker/engine/flat_gradients.h"
#include "worker/engine/trace.h"
#include "worker/model/model.h"

namespace longhaul {

// What backward needs of a unit's forward.
struct Segment {
  // Undefined for the first unit, which reads the batch.
  at::Tensor input;
  // In backward the leaves may have other memory, with the same values. Empty if forward runs
  // again.
  std::vector<at::Tensor> weights;
  at::Tensor output;
};

inline int UnitCount(const Model& model) { return static_cast<int>(model.layout().units.size()); }

// `x`: the output of the unit before.
Segment ForwardUnit(const Model& model, int unit, const at::Tensor& x, const StagedBatch& batch,
                    std::vector<at::Tensor> weights);
// Whether a pass that recomputes runs the unit's forward again. Elsewhere it would spare nothing.
inline bool Recomputes(const Model& model, int unit) {
  return GathersForBackward(model.layout(), unit);
}
// Without a graph, so that nothing but the input is kept. Before backward ForwardUnit runs with it.
Segment ForwardToRecompute(const Model& model, int unit, const at::Tensor& x,
                           const StagedBatch& batch, const std::vector<at::Tensor>& weights);

// The gradients of the segment's weights, then that of its input, if it has one.
std::vector<at::Tensor> GradientsOf(const Segment& segment, const at::Tensor& output_gradient);
// Adds the gradients of the unit's weights, and returns that of its input (undefined for the first
// unit).
at::Tensor BackwardUnit(const Model& model, int unit, const Segment& segment,
                        const at::Tensor& output_gradient, FlatGradients& gradients);

// Model::ForwardBackward. Null `gradients`: those of the weights are dropped.
Model::LastUnit LastUnitPass(const Model& model, absl::Span<const at::Tensor> weights,
                             const at::Tensor& x, const StagedBatch& batch,
                             const at::Tensor& of_sums, FlatGradients* gradients);
// The gradient of what the last unit returns: `scale` for the loss, 0 for the other sums.
at::Tensor GradientOfSums(const Model& model, double scale, at::Device device);

// The tensors that a unit takes: its own, then the borrowed ones.
std::vector<TensorRef> RefsOf(const Model& model, int unit);

// A span for what is done with the unit. `trace` may be null.
Trace::Span TraceSpanOf(Trace* trace, absl::string_view what, const Model& model, int unit);

}  // namespace longhaul

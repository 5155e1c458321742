#include "worker/engine/segmented_pass.h"

#include "ATen/core/grad_mode.h"
#include "ATen/ops/full.h"
#include "common/base/status_macros.h"
#include "torch/csrc/autograd/autograd.h"

namespace longhaul {
namespace {

// What a unit's forward leaves for its backward.
struct Segment {
  at::Tensor input;                 // Undefined for the first unit, which reads tokens.
  std::vector<at::Tensor> weights;  // Leaves: own tensors, then borrowed ones.
  std::vector<TensorRef> refs;      // Where each of them lies.
  at::Tensor output;
};

Segment ForwardUnit(const Model& model, int unit, const at::Tensor& x, const Batch& batch,
                    FlatParameters& parameters) {
  Segment segment;
  const std::vector<TensorRef> borrowed = model.Borrowed(unit);
  segment.weights = parameters.Leaves(unit, borrowed);
  const int own = static_cast<int>(segment.weights.size() - borrowed.size());
  for (int t = 0; t < own; ++t) segment.refs.push_back({unit, t});
  segment.refs.insert(segment.refs.end(), borrowed.begin(), borrowed.end());
  if (x.defined()) segment.input = x.detach().requires_grad_();
  segment.output = model.Forward(unit, segment.weights, segment.input, batch);
  return segment;
}

// Adds the unit's weight gradients and returns the gradient of its input (undefined for the first
// unit).
at::Tensor BackwardUnit(const Segment& segment, const at::Tensor& output_gradient,
                        FlatGradients& gradients) {
  std::vector<at::Tensor> wanted = segment.weights;
  if (segment.input.defined()) wanted.push_back(segment.input);
  const std::vector<at::Tensor> result =
      torch::autograd::grad({segment.output}, wanted, {output_gradient});
  for (size_t i = 0; i < segment.refs.size(); ++i) gradients.Add(segment.refs[i], result[i]);
  return segment.input.defined() ? result.back() : at::Tensor();
}

}  // namespace

absl::StatusOr<double> ForwardBackward(const Model& model, const Batch& batch, double scale,
                                       FlatParameters& parameters, FlatGradients& gradients,
                                       const UnitGradientReady& ready) {
  const int units = static_cast<int>(model.layout().units.size());
  std::vector<Segment> segments;
  for (int unit = 0; unit < units; ++unit) {
    const at::Tensor x = unit == 0 ? at::Tensor() : segments.back().output;
    segments.push_back(ForwardUnit(model, unit, x, batch, parameters));
  }
  const at::Tensor loss = segments.back().output.detach();
  at::Tensor gradient = at::full({}, scale, loss.options());
  for (int unit = units - 1; unit >= 0; --unit) {
    gradient = BackwardUnit(segments[unit], gradient, gradients);
    segments.pop_back();
    LH_RETURN_IF_ERROR(ready(unit));
  }
  return loss.item<double>();
}

double ForwardOnly(const Model& model, const Batch& batch, FlatParameters& parameters) {
  const at::NoGradGuard no_grad;
  at::Tensor x;
  for (int unit = 0; unit < static_cast<int>(model.layout().units.size()); ++unit) {
    x = model.Forward(unit, parameters.Leaves(unit, model.Borrowed(unit)), x, batch);
  }
  return x.item<double>();
}

}  // namespace longhaul

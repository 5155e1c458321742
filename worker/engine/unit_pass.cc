#include "worker/engine/unit_pass.h"

#include <utility>

#include "ATen/core/grad_mode.h"
#include "ATen/ops/empty.h"
#include "ATen/ops/zeros.h"
#include "absl/strings/str_cat.h"
#include "torch/csrc/autograd/autograd.h"

namespace longhaul {

Segment ForwardUnit(const Model& model, int unit, const at::Tensor& x, const StagedBatch& batch,
                    std::vector<at::Tensor> weights) {
  Segment segment{.weights = std::move(weights)};
  if (x.defined()) segment.input = x.detach().requires_grad_();
  segment.output = model.Forward(unit, segment.weights, segment.input, batch);
  return segment;
}

Segment ForwardToRecompute(const Model& model, int unit, const at::Tensor& x,
                           const StagedBatch& batch, const std::vector<at::Tensor>& weights) {
  const at::NoGradGuard no_grad;
  return {.input = x, .output = model.Forward(unit, weights, x, batch)};
}

std::vector<at::Tensor> GradientsOf(const Segment& segment, const at::Tensor& output_gradient) {
  std::vector<at::Tensor> wanted = segment.weights;
  if (segment.input.defined()) wanted.push_back(segment.input);
  return torch::autograd::grad({segment.output}, wanted, {output_gradient});
}

at::Tensor BackwardUnit(const Model& model, int unit, const Segment& segment,
                        const at::Tensor& output_gradient, FlatGradients& gradients) {
  const std::vector<at::Tensor> result = GradientsOf(segment, output_gradient);
  const std::vector<TensorRef> refs = RefsOf(model, unit);
  for (size_t i = 0; i < refs.size(); ++i) gradients.Add(refs[i], result[i]);
  return segment.input.defined() ? result.back() : at::Tensor();
}

Model::LastUnit LastUnitPass(const Model& model, absl::Span<const at::Tensor> weights,
                             const at::Tensor& x, const StagedBatch& batch,
                             const at::Tensor& of_sums, FlatGradients* gradients) {
  std::vector<GradientPlace> places;
  if (gradients != nullptr) {
    for (const TensorRef& ref : RefsOf(model, UnitCount(model) - 1))
      places.push_back(gradients->Place(ref));
  } else {
    const auto options = c10::TensorOptions(at::kFloat).device(of_sums.device());
    for (const at::Tensor& weight : weights) places.push_back({at::empty(weight.sizes(), options)});
  }
  return model.ForwardBackward(weights, x, batch, of_sums, places);
}

at::Tensor GradientOfSums(const Model& model, double scale, at::Device device) {
  at::Tensor gradient = at::zeros({static_cast<int64_t>(model.metrics().size())},
                                  c10::TensorOptions(at::kFloat).device(device));
  gradient.narrow(0, 0, 1).fill_(scale);
  return gradient;
}

std::vector<TensorRef> RefsOf(const Model& model, int unit) {
  std::vector<TensorRef> refs;
  for (int t = 0; t < static_cast<int>(model.layout().units[unit].tensors.size()); ++t)
    refs.push_back({unit, t});
  const std::vector<TensorRef> borrowed = model.Borrowed(unit);
  refs.insert(refs.end(), borrowed.begin(), borrowed.end());
  return refs;
}

Trace::Span TraceSpanOf(Trace* trace, absl::string_view what, const Model& model, int unit) {
  return Trace::Span(trace, Trace::Track::kCompute,
                     trace == nullptr ? "" : absl::StrCat(what, model.layout().units[unit].name));
}

}  // namespace longhaul

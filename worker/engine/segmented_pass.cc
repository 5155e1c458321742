#include "worker/engine/segmented_pass.h"

#include "ATen/core/grad_mode.h"
#include "ATen/ops/full.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "torch/csrc/autograd/autograd.h"

namespace longhaul {
namespace {

// What backward needs of a unit's forward.
struct Segment {
  // Undefined for the first unit, which reads tokens.
  at::Tensor input;
  // In backward the leaves may have other memory, with the same values. Empty if forward runs
  // again.
  std::vector<at::Tensor> weights;
  at::Tensor output;
};

Segment ForwardUnit(const Model& model, int unit, const at::Tensor& x, const Batch& batch,
                    std::vector<at::Tensor> weights) {
  Segment segment{.weights = std::move(weights)};
  if (x.defined()) segment.input = x.detach().requires_grad_();
  segment.output = model.Forward(unit, segment.weights, segment.input, batch);
  return segment;
}

// Runs a unit's forward without a graph.
Segment ForwardToRecompute(const Model& model, int unit, const at::Tensor& x, const Batch& batch,
                           const std::vector<at::Tensor>& weights) {
  const at::NoGradGuard no_grad;
  return {.input = x, .output = model.Forward(unit, weights, x, batch)};
}

// The tensors that a unit takes: its own, then the borrowed ones.
std::vector<TensorRef> RefsOf(const Model& model, int unit) {
  std::vector<TensorRef> refs;
  for (int t = 0; t < static_cast<int>(model.layout().units[unit].tensors.size()); ++t)
    refs.push_back({unit, t});
  const std::vector<TensorRef> borrowed = model.Borrowed(unit);
  refs.insert(refs.end(), borrowed.begin(), borrowed.end());
  return refs;
}

// Adds the unit's weight gradients and returns the gradient of its input (undefined for the first
// unit).
at::Tensor BackwardUnit(const Model& model, int unit, const Segment& segment,
                        const at::Tensor& output_gradient, FlatGradients& gradients) {
  std::vector<at::Tensor> wanted = segment.weights;
  if (segment.input.defined()) wanted.push_back(segment.input);
  const std::vector<at::Tensor> result =
      torch::autograd::grad({segment.output}, wanted, {output_gradient});
  const std::vector<TensorRef> refs = RefsOf(model, unit);
  for (size_t i = 0; i < refs.size(); ++i) gradients.Add(refs[i], result[i]);
  return segment.input.defined() ? result.back() : at::Tensor();
}

Trace::Span TraceSpanOf(const PassOptions& options, const char* what, const Model& model,
                        int unit) {
  return Trace::Span(
      options.trace, Trace::Track::kCompute,
      options.trace == nullptr ? "" : absl::StrCat(what, model.layout().units[unit].name));
}

int UnitCount(const Model& model) { return static_cast<int>(model.layout().units.size()); }

absl::StatusOr<PassLoss> FusedForwardBackward(const Model& model, const std::optional<Batch>& batch,
                                              const PassOptions& options, WeightStream& weights,
                                              FlatGradients& gradients,
                                              const UnitGradientReady& ready) {
  using Keep = FusedPass::Keep;
  FusedPass& fused = *options.fused;
  if (batch.has_value()) {
    fused.Begin(*batch, {.keep = options.recompute ? Keep::kInputs : Keep::kActivations,
                         .scale = options.scale});
  }
  for (int unit = 0; unit < UnitCount(model); ++unit) {
    LH_ASSIGN_OR_RETURN(const std::vector<at::Tensor> taken, weights.Take());
    if (batch.has_value()) {
      const Trace::Span span = TraceSpanOf(options, "forward ", model, unit);
      fused.Forward(unit, taken);
    }
    weights.Done();
  }
  for (int unit = UnitCount(model) - 1; unit >= 0; --unit) {
    LH_ASSIGN_OR_RETURN(const std::vector<at::Tensor> taken, weights.Take());
    if (batch.has_value()) {
      const Trace::Span span = TraceSpanOf(options, "backward ", model, unit);
      fused.Backward(unit, taken, gradients);
    }
    weights.Done();
    LH_RETURN_IF_ERROR(ready(unit));
  }
  return PassLoss{.on_host = batch.has_value() ? fused.loss_sum() : 0};
}

// Of a scalar, or of none.
PassLoss LossOf(const at::Tensor& sum) {
  if (!sum.defined()) return {};
  if (sum.is_cpu()) return {.on_host = sum.item<double>()};
  return {.on_device = sum.to(at::kDouble)};
}

}  // namespace

std::vector<UnitUse> EvaluationUses(const Model& model) {
  std::vector<UnitUse> uses;
  for (int unit = 0; unit < UnitCount(model); ++unit) uses.push_back({unit, Pass::kEvaluation});
  return uses;
}

std::vector<UnitUse> TrainingUses(const Model& model) {
  std::vector<UnitUse> uses;
  for (int unit = 0; unit < UnitCount(model); ++unit) uses.push_back({unit, Pass::kForward});
  for (int unit = UnitCount(model) - 1; unit >= 0; --unit) uses.push_back({unit, Pass::kBackward});
  return uses;
}

absl::StatusOr<PassLoss> ForwardBackward(const Model& model, const std::optional<Batch>& batch,
                                         const PassOptions& options, WeightStream& weights,
                                         FlatGradients& gradients, const UnitGradientReady& ready) {
  if (options.fused != nullptr)
    return FusedForwardBackward(model, batch, options, weights, gradients, ready);
  std::vector<Segment> segments;
  at::Tensor x;
  for (int unit = 0; unit < UnitCount(model); ++unit) {
    LH_ASSIGN_OR_RETURN(std::vector<at::Tensor> taken, weights.Take());
    if (batch.has_value()) {
      const Trace::Span span = TraceSpanOf(options, "forward ", model, unit);
      segments.push_back(options.recompute ? ForwardToRecompute(model, unit, x, *batch, taken)
                                           : ForwardUnit(model, unit, x, *batch, std::move(taken)));
      x = segments.back().output;
    }
    weights.Done();
  }
  at::Tensor loss, gradient;
  if (batch.has_value()) {
    loss = x.detach();
    gradient = at::full({}, options.scale, loss.options());
  }
  x.reset();
  for (int unit = UnitCount(model) - 1; unit >= 0; --unit) {
    LH_ASSIGN_OR_RETURN(std::vector<at::Tensor> taken, weights.Take());
    if (batch.has_value()) {
      const Trace::Span span = TraceSpanOf(options, "backward ", model, unit);
      Segment& segment = segments.back();
      if (options.recompute)
        segment = ForwardUnit(model, unit, segment.input, *batch, std::move(taken));
      gradient = BackwardUnit(model, unit, segment, gradient, gradients);
      segments.pop_back();
    }
    weights.Done();
    LH_RETURN_IF_ERROR(ready(unit));
  }
  return LossOf(loss);
}

absl::StatusOr<PassLoss> ForwardOnly(const Model& model, const std::optional<Batch>& batch,
                                     WeightStream& weights, FusedPass* fused) {
  const at::NoGradGuard no_grad;
  if (fused != nullptr && batch.has_value()) fused->Begin(*batch, {});
  at::Tensor x;
  for (int unit = 0; unit < UnitCount(model); ++unit) {
    LH_ASSIGN_OR_RETURN(const std::vector<at::Tensor> taken, weights.Take());
    if (batch.has_value()) {
      if (fused != nullptr) {
        fused->Forward(unit, taken);
      } else {
        x = model.Forward(unit, taken, x, *batch);
      }
    }
    weights.Done();
  }
  if (fused == nullptr) return LossOf(x);
  return PassLoss{.on_host = batch.has_value() ? fused->loss_sum() : 0};
}

}  // namespace longhaul

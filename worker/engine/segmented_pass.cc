#include "worker/engine/segmented_pass.h"

#include "ATen/core/grad_mode.h"
#include "ATen/ops/full.h"
#include "common/base/status_macros.h"
#include "worker/engine/unit_pass.h"

namespace longhaul {
namespace {

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
      const Trace::Span span = TraceSpanOf(options.trace, "forward ", model, unit);
      fused.Forward(unit, taken);
    }
    weights.Done();
  }
  for (int unit = UnitCount(model) - 1; unit >= 0; --unit) {
    LH_ASSIGN_OR_RETURN(const std::vector<at::Tensor> taken, weights.Take());
    if (batch.has_value()) {
      const Trace::Span span = TraceSpanOf(options.trace, "backward ", model, unit);
      fused.Backward(unit, taken, gradients);
    }
    weights.Done();
    LH_RETURN_IF_ERROR(ready(unit));
  }
  return PassLoss{.on_host = batch.has_value() ? fused.loss_sum() : 0};
}

}  // namespace

PassLoss LossOf(const at::Tensor& sum) {
  if (!sum.defined()) return {};
  if (sum.is_cpu()) return {.on_host = sum.item<double>()};
  return {.on_device = sum.to(at::kDouble)};
}

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
      const Trace::Span span = TraceSpanOf(options.trace, "forward ", model, unit);
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
      const Trace::Span span = TraceSpanOf(options.trace, "backward ", model, unit);
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

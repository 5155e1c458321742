#include "worker/engine/segmented_pass.h"

#include "ATen/core/grad_mode.h"
#include "ATen/ops/zeros.h"
#include "ATen/ops/zeros_like.h"
#include "c10/util/Exception.h"
#include "common/base/status_macros.h"
#include "worker/engine/unit_pass.h"

namespace longhaul {
namespace {

absl::StatusOr<MetricSums> FusedForwardBackward(const Model& model, const StagedBatch& batch,
                                                const PassOptions& options, WeightStream& weights,
                                                FlatGradients& gradients,
                                                const UnitGradientReady& ready) {
  using Keep = FusedPass::Keep;
  FusedPass& fused = *options.fused;
  if (batch.examples > 0) {
    fused.Begin(batch, {.keep = options.recompute ? Keep::kInputs : Keep::kActivations,
                        .scale = options.scale});
  }
  for (int unit = 0; unit < UnitCount(model); ++unit) {
    LH_ASSIGN_OR_RETURN(const std::vector<at::Tensor> taken, weights.Take());
    if (batch.examples > 0) {
      const Trace::Span span = TraceSpanOf(options.trace, "forward ", model, unit);
      fused.Forward(unit, taken);
    }
    weights.Done();
  }
  for (int unit = UnitCount(model) - 1; unit >= 0; --unit) {
    LH_ASSIGN_OR_RETURN(const std::vector<at::Tensor> taken, weights.Take());
    if (batch.examples > 0) {
      const Trace::Span span = TraceSpanOf(options.trace, "backward ", model, unit);
      fused.Backward(unit, taken, gradients);
    }
    weights.Done();
    LH_RETURN_IF_ERROR(ready(unit));
  }
  MetricSums sums(model);
  if (batch.examples > 0) sums.Add(fused.sums());
  return sums;
}

}  // namespace

void MetricSums::Add(const at::Tensor& sums) {
  TORCH_CHECK(sums.numel() <= static_cast<int64_t>(on_host_.size()), "sums that have no metric");
  if (sums.is_cpu()) {
    const at::Tensor all = sums.contiguous();
    for (int64_t i = 0; i < all.numel(); ++i) on_host_[i] += all.const_data_ptr<float>()[i];
  } else {
    const at::Tensor wide = sums.to(at::kDouble);
    on_device_ = on_device_.defined() ? on_device_.add(wide) : wide;
  }
}

void MetricSums::Add(absl::Span<const double> sums) {
  for (size_t i = 0; i < on_host_.size(); ++i) on_host_[i] += sums[i];
}

void MetricSums::Add(const MetricSums& other) {
  Add(other.on_host_);
  if (!other.on_device_.defined()) return;
  on_device_ = on_device_.defined() ? on_device_.add(other.on_device_) : other.on_device_;
}

at::Tensor MetricSums::On(at::Device device) const {
  at::Tensor sums = at::zeros({static_cast<int64_t>(on_host_.size())},
                              c10::TensorOptions(at::kDouble).device(device));
  if (on_device_.defined()) sums.add_(on_device_);
  for (size_t i = 0; i < on_host_.size(); ++i)
    sums.select(0, static_cast<int64_t>(i)).add_(on_host_[i]);
  return sums;
}

std::vector<double> MetricSums::Total() const {
  std::vector<double> total = on_host_;
  if (!on_device_.defined()) return total;
  const at::Tensor rest = on_device_.cpu();
  for (int64_t i = 0; i < rest.numel(); ++i) total[i] += rest.const_data_ptr<double>()[i];
  return total;
}

at::Tensor GradientOfSums(const at::Tensor& sums, double scale) {
  at::Tensor gradient = at::zeros_like(sums);
  gradient.narrow(0, 0, 1).fill_(scale);
  return gradient;
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

absl::StatusOr<MetricSums> ForwardBackward(const Model& model, const StagedBatch& batch,
                                           const PassOptions& options, WeightStream& weights,
                                           FlatGradients& gradients,
                                           const UnitGradientReady& ready) {
  if (options.fused != nullptr)
    return FusedForwardBackward(model, batch, options, weights, gradients, ready);
  // The last unit's backward follows its forward at once, so nothing is spared by a second forward.
  const auto recomputes = [&](int unit) {
    return options.recompute && unit + 1 < UnitCount(model);
  };
  std::vector<Segment> segments;
  at::Tensor x;
  for (int unit = 0; unit < UnitCount(model); ++unit) {
    LH_ASSIGN_OR_RETURN(std::vector<at::Tensor> taken, weights.Take());
    if (batch.examples > 0) {
      const Trace::Span span = TraceSpanOf(options.trace, "forward ", model, unit);
      segments.push_back(recomputes(unit) ? ForwardToRecompute(model, unit, x, batch, taken)
                                          : ForwardUnit(model, unit, x, batch, std::move(taken)));
      x = segments.back().output;
    }
    weights.Done();
  }
  at::Tensor last, gradient;
  if (batch.examples > 0) {
    last = x.detach();
    gradient = GradientOfSums(last, options.scale);
  }
  x.reset();
  for (int unit = UnitCount(model) - 1; unit >= 0; --unit) {
    LH_ASSIGN_OR_RETURN(std::vector<at::Tensor> taken, weights.Take());
    if (batch.examples > 0) {
      const Trace::Span span = TraceSpanOf(options.trace, "backward ", model, unit);
      Segment& segment = segments.back();
      if (recomputes(unit))
        segment = ForwardUnit(model, unit, segment.input, batch, std::move(taken));
      gradient = BackwardUnit(model, unit, segment, gradient, gradients);
      segments.pop_back();
    }
    weights.Done();
    LH_RETURN_IF_ERROR(ready(unit));
  }
  MetricSums sums(model);
  if (last.defined()) sums.Add(last);
  return sums;
}

absl::StatusOr<MetricSums> ForwardOnly(const Model& model, const StagedBatch& batch,
                                       WeightStream& weights, FusedPass* fused) {
  const at::NoGradGuard no_grad;
  if (fused != nullptr && batch.examples > 0) fused->Begin(batch, {});
  at::Tensor x;
  for (int unit = 0; unit < UnitCount(model); ++unit) {
    LH_ASSIGN_OR_RETURN(const std::vector<at::Tensor> taken, weights.Take());
    if (batch.examples > 0) {
      if (fused != nullptr) {
        fused->Forward(unit, taken);
      } else {
        x = model.Forward(unit, taken, x, batch);
      }
    }
    weights.Done();
  }
  MetricSums sums = MetricSums::OfEvaluation(model);
  if (batch.examples == 0) return sums;
  fused != nullptr ? sums.Add(fused->sums()) : sums.Add(x);
  return sums;
}

}  // namespace longhaul

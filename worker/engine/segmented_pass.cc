#include "worker/engine/segmented_pass.h"

#include <utility>

#include "ATen/core/grad_mode.h"
#include "ATen/ops/zeros.h"
#include "absl/functional/function_ref.h"
#include "c10/util/Exception.h"
#include "common/base/status_macros.h"
#include "common/layout/backward_gathers.h"
#include "worker/engine/unit_pass.h"

namespace longhaul {
namespace {

using UnitWork = absl::FunctionRef<void(int unit, std::vector<at::Tensor> weights)>;

// Runs `forward` of all units but the last, `both` of the last, and `backward` of the others in
// reverse. Weights are those of TrainingUses: where backward gathers none, it gets none.
absl::Status WalkUnits(const Model& model, const StagedBatch& batch, Trace* trace,
                       WeightStream& weights, UnitWork forward, UnitWork both, UnitWork backward,
                       const UnitGradientReady& ready) {
  const auto run = [&](absl::string_view what, UnitWork work, int unit,
                       std::vector<at::Tensor> taken) {
    if (batch.examples == 0) return;
    const Trace::Span span = TraceSpanOf(trace, what, model, unit);
    work(unit, std::move(taken));
  };
  const int last = UnitCount(model) - 1;
  for (int unit = 0; unit <= last; ++unit) {
    LH_ASSIGN_OR_RETURN(std::vector<at::Tensor> taken, weights.Take());
    if (unit < last) {
      run("forward ", forward, unit, std::move(taken));
    } else {
      run("forward and backward ", both, unit, std::move(taken));
    }
    weights.Done();
  }
  LH_RETURN_IF_ERROR(ready(last));
  for (int unit = last - 1; unit >= 0; --unit) {
    if (GathersForBackward(model.layout(), unit)) {
      LH_ASSIGN_OR_RETURN(std::vector<at::Tensor> taken, weights.Take());
      run("backward ", backward, unit, std::move(taken));
      weights.Done();
    } else {
      run("backward ", backward, unit, {});
    }
    LH_RETURN_IF_ERROR(ready(unit));
  }
  return absl::OkStatus();
}

absl::StatusOr<MetricSums> FusedForwardBackward(const Model& model, const StagedBatch& batch,
                                                const PassOptions& options, WeightStream& weights,
                                                FlatGradients& gradients,
                                                const UnitGradientReady& ready) {
  using Keep = FusedPass::Keep;
  using Tensors = std::vector<at::Tensor>;
  FusedPass& fused = *options.fused;
  if (batch.examples > 0) {
    fused.Begin(batch, {.keep = options.recompute ? Keep::kInputs : Keep::kActivations,
                        .scale = options.scale});
  }
  LH_RETURN_IF_ERROR(WalkUnits(
      model, batch, options.trace, weights,
      [&](int unit, const Tensors& taken) { fused.Forward(unit, taken); },
      [&](int unit, const Tensors& taken) {
        fused.Forward(unit, taken);
        fused.Backward(unit, taken, gradients);
      },
      [&](int unit, const Tensors& taken) { fused.Backward(unit, taken, gradients); }, ready));
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

std::vector<UnitUse> EvaluationUses(const Model& model) {
  std::vector<UnitUse> uses;
  for (int unit = 0; unit < UnitCount(model); ++unit) uses.push_back({unit, Pass::kEvaluation});
  return uses;
}

std::vector<UnitUse> CopyUses(const Model& model) {
  std::vector<UnitUse> uses = EvaluationUses(model);
  for (UnitUse& use : uses) use.borrows = false;
  return uses;
}

std::vector<UnitUse> TrainingUses(const Model& model, int micro_batches) {
  std::vector<UnitUse> uses;
  for (int micro = 0; micro < micro_batches; ++micro) {
    for (int unit = 0; unit < UnitCount(model); ++unit) uses.push_back({unit, Pass::kForward});
    for (int unit = UnitCount(model) - 1; unit >= 0; --unit) {
      if (GathersForBackward(model.layout(), unit)) uses.push_back({unit, Pass::kBackward});
    }
  }
  return uses;
}

absl::StatusOr<MetricSums> ForwardBackward(const Model& model, const StagedBatch& batch,
                                           const PassOptions& options, WeightStream& weights,
                                           FlatGradients& gradients,
                                           const UnitGradientReady& ready) {
  if (options.fused != nullptr)
    return FusedForwardBackward(model, batch, options, weights, gradients, ready);
  const auto recomputes = [&](int unit) { return options.recompute && Recomputes(model, unit); };
  std::vector<Segment> segments;
  MetricSums sums(model);
  at::Tensor x, gradient;
  const auto forward = [&](int unit, std::vector<at::Tensor> taken) {
    segments.push_back(recomputes(unit) ? ForwardToRecompute(model, unit, x, batch, taken)
                                        : ForwardUnit(model, unit, x, batch, std::move(taken)));
    x = segments.back().output;
  };
  const auto both = [&](int, const std::vector<at::Tensor>& taken) {
    const at::Tensor of_sums = GradientOfSums(model, options.scale, taken[0].device());
    Model::LastUnit result =
        LastUnitPass(model, taken, std::exchange(x, {}), batch, of_sums, &gradients);
    sums.Add(result.sums);
    gradient = std::move(result.of_x);
  };
  const auto backward = [&](int unit, std::vector<at::Tensor> taken) {
    Segment& segment = segments.back();
    if (recomputes(unit))
      segment = ForwardUnit(model, unit, segment.input, batch, std::move(taken));
    gradient = BackwardUnit(model, unit, segment, gradient, gradients);
    segments.pop_back();
  };
  LH_RETURN_IF_ERROR(
      WalkUnits(model, batch, options.trace, weights, forward, both, backward, ready));
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

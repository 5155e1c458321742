#include "worker/engine/torch_adamw.h"

#include "ATen/core/grad_mode.h"
#include "ATen/ops/_foreach_copy.h"
#include "ATen/ops/_foreach_mul.h"
#include "ATen/ops/_fused_adamw.h"
#include "ATen/ops/zeros.h"
#include "common/base/check.h"
#include "worker/engine/subgroup_tensors.h"

namespace longhaul {

TorchAdamW::TorchAdamW(const AdamWOptions& options, absl::Span<const SubgroupShape> subgroups,
                       at::Device device)
    : options_(options) {
  LH_CHECK(options.moments == MomentPrecision::kFloat32, "torch's kernel keeps float32 moments");
  const auto on_device = c10::TensorOptions(at::kFloat).device(device);
  for (const SubgroupShape& shape : subgroups) {
    subgroups_.push_back({shape.decay, at::zeros({shape.elements}, on_device),
                          at::zeros({shape.elements}, on_device)});
  }
  updates_ = at::zeros({}, on_device);
}

void TorchAdamW::Begin(const UpdateOptions& options) {
  update_ = options;
  SetUpdates(begun_ + 1);
}

void TorchAdamW::SetUpdates(int64_t updates) {
  begun_ = updates;
  updates_.fill_(static_cast<double>(updates));
}

void TorchAdamW::Submit(const SubgroupUpdate& update) {
  State& state = subgroups_[update.subgroup];
  LH_CHECK(update.Fits(state.moment.numel()), "a subgroup has another size");
  state.submitted = true;
  submitted_.push_back(update);
}

absl::Status TorchAdamW::Finish() {
  const at::NoGradGuard no_grad;
  for (const bool decay : {false, true}) {
    std::vector<SubgroupUpdate> updates;
    int64_t scaled = 0;
    for (const SubgroupUpdate& update : submitted_) {
      State& state = subgroups_[update.subgroup];
      if (state.decay != decay) continue;
      state.submitted = false;
      updates.push_back(update);
      if (update_.gradient_scale != 1 || update.gradients.empty()) scaled += state.moment.numel();
      if (scaled < kScaledElements) continue;
      UpdateAll(updates, decay);
      updates.clear();
      scaled = 0;
    }
    if (!updates.empty()) UpdateAll(updates, decay);
  }
  submitted_.clear();
  return absl::OkStatus();
}

void TorchAdamW::UpdateAll(absl::Span<const SubgroupUpdate> updates, bool decay) {
  std::vector<at::Tensor> parameters, gradients, moments, variances, rounded, shadows;
  for (const SubgroupUpdate& update : updates) {
    const State& state = subgroups_[update.subgroup];
    const at::Device device = state.moment.device();
    parameters.push_back(TensorOf(update.parameters, device));
    gradients.push_back(GradientOf(update, device));
    moments.push_back(state.moment);
    variances.push_back(state.variance);
    if (update.shadow.empty()) continue;
    rounded.push_back(parameters.back());
    shadows.push_back(TensorOf(update.shadow, device));
  }
  if (update_.gradient_scale != 1) gradients = at::_foreach_mul(gradients, update_.gradient_scale);
  const std::vector<at::Tensor> counts(updates.size(), updates_);
  at::_fused_adamw_(parameters, gradients, moments, variances, /*max_exp_avg_sqs=*/{}, counts,
                    update_.learning_rate, options_.beta1, options_.beta2,
                    decay ? options_.weight_decay : 0, options_.eps, /*amsgrad=*/false,
                    /*maximize=*/false);
  if (!shadows.empty()) at::_foreach_copy_(shadows, rounded);
}

absl::Status TorchAdamW::ReadState(OptimizerState state, int subgroup, int64_t first,
                                   absl::Span<float> values) const {
  const State& kept = subgroups_[subgroup];
  const at::Tensor& from = state == OptimizerState::kMoment ? kept.moment : kept.variance;
  const at::Tensor host = TensorOf(values, at::kCPU);
  host.copy_(from.narrow(0, first, host.numel()));
  return absl::OkStatus();
}

absl::Status TorchAdamW::WriteState(OptimizerState state, int subgroup, int64_t first,
                                    absl::Span<const float> values) {
  const State& kept = subgroups_[subgroup];
  const at::Tensor& to = state == OptimizerState::kMoment ? kept.moment : kept.variance;
  const at::Tensor host = TensorOf(values, at::kCPU);
  to.narrow(0, first, host.numel()).copy_(host);
  return absl::OkStatus();
}

int64_t TorchAdamW::state_bytes() const {
  int64_t bytes = 0;
  for (const State& state : subgroups_) bytes += static_cast<int64_t>(2 * state.moment.nbytes());
  return bytes;
}

}  // namespace longhaul

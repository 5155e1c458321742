#include "worker/engine/torch_adamw.h"

#include "ATen/core/grad_mode.h"
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
  const at::NoGradGuard no_grad;
  const State& state = subgroups_[update.subgroup];
  LH_CHECK(static_cast<int64_t>(update.parameters.size()) == state.moment.numel(),
           "a subgroup has another size");
  const at::Device device = state.moment.device();
  const at::Tensor parameters = TensorOf(update.parameters, device);
  const at::Tensor gradient = ScaledGradient(update, update_.gradient_scale, device);
  at::_fused_adamw_({parameters}, {gradient}, {state.moment}, {state.variance},
                    /*max_exp_avg_sqs=*/{}, {updates_}, update_.learning_rate, options_.beta1,
                    options_.beta2, state.decay ? options_.weight_decay : 0, options_.eps,
                    /*amsgrad=*/false, /*maximize=*/false);
  if (!update.shadow.empty()) TensorOf(update.shadow, device).copy_(parameters);
}

void TorchAdamW::ReadState(OptimizerState state, int subgroup, int64_t first,
                           absl::Span<float> values) const {
  const State& kept = subgroups_[subgroup];
  const at::Tensor& from = state == OptimizerState::kMoment ? kept.moment : kept.variance;
  const at::Tensor host = TensorOf(values, at::kCPU);
  host.copy_(from.narrow(0, first, host.numel()));
}

void TorchAdamW::WriteState(OptimizerState state, int subgroup, int64_t first,
                            absl::Span<const float> values) {
  const State& kept = subgroups_[subgroup];
  const at::Tensor& to = state == OptimizerState::kMoment ? kept.moment : kept.variance;
  const at::Tensor host = TensorOf(values, at::kCPU);
  to.narrow(0, first, host.numel()).copy_(host);
}

int64_t TorchAdamW::state_bytes() const {
  int64_t bytes = 0;
  for (const State& state : subgroups_) bytes += static_cast<int64_t>(2 * state.moment.nbytes());
  return bytes;
}

}  // namespace longhaul

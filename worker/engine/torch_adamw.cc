#include "worker/engine/torch_adamw.h"

#include "ATen/core/grad_mode.h"
#include "ATen/ops/_fused_adamw.h"
#include "ATen/ops/from_blob.h"
#include "ATen/ops/zeros.h"
#include "common/base/check.h"

namespace longhaul {
namespace {

at::Tensor Wrap(const float* data, size_t size, at::Device device) {
  const auto options = c10::TensorOptions(at::kFloat).device(device);
  const int64_t sizes[] = {static_cast<int64_t>(size)};
  return at::for_blob(const_cast<float*>(data), sizes)
      .options(options)
      .target_device(device)
      .make_tensor();
}

}  // namespace

TorchAdamW::TorchAdamW(const AdamWOptions& options, absl::Span<const OptimizerRun> runs,
                       at::Device device)
    : options_(options) {
  const auto on_device = c10::TensorOptions(at::kFloat).device(device);
  for (const OptimizerRun& run : runs) {
    runs_.push_back(
        {run.decay, at::zeros({run.elements}, on_device), at::zeros({run.elements}, on_device)});
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

absl::Span<float> TorchAdamW::Moments(Moment moment, int run) {
  const at::Tensor& values = moment == Moment::kFirst ? runs_[run].moment : runs_[run].variance;
  return {values.data_ptr<float>(), static_cast<size_t>(values.numel())};
}

void TorchAdamW::Update(int run, absl::Span<float> parameters, absl::Span<const float> gradients) {
  const at::NoGradGuard no_grad;
  const State& state = runs_[run];
  LH_CHECK(static_cast<int64_t>(parameters.size()) == state.moment.numel() &&
               parameters.size() == gradients.size(),
           "a run has another size");
  const at::Device device = state.moment.device();
  at::Tensor gradient = Wrap(gradients.data(), gradients.size(), device);
  if (update_.gradient_scale != 1) gradient = gradient.mul(update_.gradient_scale);
  at::_fused_adamw_({Wrap(parameters.data(), parameters.size(), device)}, {gradient},
                    {state.moment}, {state.variance},
                    /*max_exp_avg_sqs=*/{}, {updates_}, update_.learning_rate, options_.beta1,
                    options_.beta2, state.decay ? options_.weight_decay : 0, options_.eps,
                    /*amsgrad=*/false, /*maximize=*/false);
}

}  // namespace longhaul

#include "worker/optim/adamw.h"

#include "common/base/check.h"

namespace longhaul {

AdamW::AdamW(const AdamWOptions& options, absl::Span<const OptimizerRun> runs) : options_(options) {
  for (const OptimizerRun& run : runs) {
    runs_.push_back(
        {run.decay, std::vector<float>(run.elements), std::vector<float>(run.elements)});
  }
}

void AdamW::Begin(const UpdateOptions& options) {
  const AdamWStep step(options_, options.learning_rate, ++updates_);
  const auto f = [](double value) { return static_cast<float>(value); };
  constants_ = {.gradient_scale = f(options.gradient_scale),
                .beta1 = f(options_.beta1),
                .one_minus_beta1 = f(1 - options_.beta1),
                .beta2 = f(options_.beta2),
                .one_minus_beta2 = f(1 - options_.beta2),
                .keep = f(step.keep),
                .step_size = f(step.step_size),
                .inverse_root = f(1 / step.root),
                .eps = f(options_.eps)};
}

void AdamW::Update(int run, absl::Span<float> parameters, absl::Span<const float> gradients) {
  State& state = runs_[run];
  LH_CHECK(updates_ > 0, "an update outside Begin");
  LH_CHECK(parameters.size() == state.moment.size() && gradients.size() == state.moment.size(),
           "a run has another size");
  AdamWConstants constants = constants_;
  if (!state.decay) constants.keep = 1;
  AdamWKernel(constants, static_cast<int64_t>(parameters.size()), gradients.data(),
              parameters.data(), state.moment.data(), state.variance.data());
}

absl::Span<float> AdamW::Moments(Moment moment, int run) {
  return absl::MakeSpan(moment == Moment::kFirst ? runs_[run].moment : runs_[run].variance);
}

}  // namespace longhaul

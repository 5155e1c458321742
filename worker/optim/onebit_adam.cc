#include "worker/optim/onebit_adam.h"

#include <algorithm>
#include <cmath>

#include "common/base/check.h"
#include "worker/optim/bfloat16.h"

namespace longhaul {
namespace {

// The smallest part that a thread computes.
constexpr int64_t kGrainElements = 1 << 14;

void WriteShadow(const SubgroupUpdate& update, int64_t first, int64_t end) {
  if (update.shadow.empty()) return;
  const float* const parameters = update.parameters.data();
  std::transform(parameters + first, parameters + end, update.shadow.begin() + first, ToBfloat16);
}

}  // namespace

OneBitAdam::OneBitAdam(const OneBitAdamOptions& options, absl::Span<const SubgroupShape> subgroups,
                       ThreadTeam* team)
    : options_(options),
      shapes_(subgroups.begin(), subgroups.end()),
      team_(team),
      adamw_(options.adamw, subgroups, team),
      local_(subgroups) {
  LH_CHECK(options.adamw.moments == MomentPrecision::kFloat32, "1-bit Adam keeps float32 moments");
}

void OneBitAdam::MakeMomentum(int subgroup, double scale, absl::Span<float> gradients) {
  const absl::Span<const float> moment = adamw_.Wide(OptimizerState::kMoment, subgroup);
  LH_CHECK(frozen_at_ > 0 && gradients.size() == moment.size(), "no momentum of this to be made");
  if (!options_.freeze_variance) {
    for (float& gradient : gradients) gradient *= static_cast<float>(scale);
    return;
  }
  const auto beta1 = static_cast<float>(options_.adamw.beta1);
  const auto share = static_cast<float>((1 - options_.adamw.beta1) * scale);
  for (size_t i = 0; i < moment.size(); ++i)
    gradients[i] = beta1 * moment[i] + share * gradients[i];
}

void OneBitAdam::Begin(const UpdateOptions& options) {
  changes_variance_ = ChangesVarianceNext();
  local_step_ = StepsLocallyNext();
  adamw_.Begin({.learning_rate = options.learning_rate,
                .gradient_scale = frozen_at_ > 0 ? 1 : options.gradient_scale});
  if (!frozen()) return;
  const AdamWStep now(options_.adamw, options.learning_rate, updates());
  const AdamWStep then(options_.adamw, options.learning_rate, schedule().Count(updates()));
  scale_ = static_cast<float>(options.gradient_scale);
  keep_ = static_cast<float>(now.keep);
  step_size_ = static_cast<float>(now.step_size);
  inverse_root_ = static_cast<float>(1 / then.root);
  if (local_step_) local_.Begin(step_size_, keep_);
}

void OneBitAdam::Submit(const SubgroupUpdate& update) {
  if (frozen()) return StepByMomentum(update);
  adamw_.Submit(update);
}

void OneBitAdam::TakeMomentum(int subgroup, absl::Span<const float> momentum, int64_t first,
                              int64_t end) {
  const absl::Span<float> moment = adamw_.Wide(OptimizerState::kMoment, subgroup);
  std::copy(momentum.begin() + first, momentum.begin() + end, moment.begin() + first);
}

void OneBitAdam::TakeGradients(int subgroup, absl::Span<const float> gradients, int64_t first,
                               int64_t end) {
  const auto beta1 = static_cast<float>(options_.adamw.beta1);
  const auto one_minus_beta1 = static_cast<float>(1 - options_.adamw.beta1);
  const auto beta2 = static_cast<float>(options_.adamw.beta2);
  const auto one_minus_beta2 = static_cast<float>(1 - options_.adamw.beta2);
  const absl::Span<float> moment = adamw_.Wide(OptimizerState::kMoment, subgroup);
  const absl::Span<float> variance = adamw_.Wide(OptimizerState::kVariance, subgroup);
  for (int64_t i = first; i < end; ++i) {
    const float gradient = scale_ * gradients[i];
    moment[i] = beta1 * moment[i] + one_minus_beta1 * gradient;
    variance[i] = beta2 * variance[i] + one_minus_beta2 * gradient * gradient;
  }
}

void OneBitAdam::TakeOwnGradients(int subgroup, absl::Span<const float> gradients, int64_t first,
                                  int64_t end) {
  const auto beta1 = static_cast<float>(options_.adamw.beta1);
  const auto one_minus_beta1 = static_cast<float>(1 - options_.adamw.beta1);
  const absl::Span<float> moment = adamw_.Wide(OptimizerState::kMoment, subgroup);
  for (int64_t i = first; i < end; ++i)
    moment[i] = beta1 * moment[i] + one_minus_beta1 * (scale_ * gradients[i]);
}

void OneBitAdam::CheckSizes(const SubgroupUpdate& update) const {
  LH_CHECK(updates() > 0, "an update outside Begin");
  LH_CHECK(update.Fits(shapes_[update.subgroup].elements), "a subgroup has another size");
  LH_CHECK(update.narrow_gradients.empty(), "momentum must be float32");
}

void OneBitAdam::StepByMomentum(const SubgroupUpdate& update) {
  CheckSizes(update);
  const int subgroup = update.subgroup;
  const float keep = shapes_[subgroup].decay ? keep_ : 1;
  const absl::Span<const float> moment = adamw_.Wide(OptimizerState::kMoment, subgroup);
  const FrozenScale scale = frozen_scale(subgroup);
  const auto run = [&](int64_t first, int64_t end) {
    if (local_step_) {
      TakeOwnGradients(subgroup, update.gradients, first, end);
      local_.Step({subgroup, first, end}, scale, moment, update.parameters);
      return WriteShadow(update, first, end);
    }
    if (changes_variance_) {
      TakeGradients(subgroup, update.gradients, first, end);
    } else {
      TakeMomentum(subgroup, update.gradients, first, end);
    }
    float* const parameters = update.parameters.data();
    for (int64_t i = first; i < end; ++i)
      parameters[i] = keep * parameters[i] - step_size_ * scale.Of(moment[i], i);
    WriteShadow(update, first, end);
  };
  ForParts(team_, shapes_[subgroup].elements, kGrainElements, run);
}

void OneBitAdam::Synchronize(const SubgroupUpdate& update) {
  CheckSizes(update);
  const int subgroup = update.subgroup;
  const absl::Span<float> moment = adamw_.Wide(OptimizerState::kMoment, subgroup);
  const FrozenScale scale = frozen_scale(subgroup);
  ForParts(team_, shapes_[subgroup].elements, kGrainElements, [&](int64_t first, int64_t end) {
    local_.Synchronize({subgroup, first, end}, scale, update.gradients, moment, update.parameters);
    WriteShadow(update, first, end);
  });
}

}  // namespace longhaul

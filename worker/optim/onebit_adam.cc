#include "worker/optim/onebit_adam.h"

#include <algorithm>
#include <cmath>

#include "common/base/check.h"
#include "worker/optim/bfloat16.h"

namespace longhaul {
namespace {

constexpr int64_t kGrainElements = 1 << 14;  // Of a thread's part.

}  // namespace

OneBitAdam::OneBitAdam(const OneBitAdamOptions& options, absl::Span<const SubgroupShape> subgroups,
                       ThreadTeam* team)
    : options_(options),
      shapes_(subgroups.begin(), subgroups.end()),
      team_(team),
      adamw_(options.adamw, subgroups, team) {
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
  adamw_.Begin({.learning_rate = options.learning_rate,
                .gradient_scale = frozen_at_ > 0 ? 1 : options.gradient_scale});
  if (!frozen()) return;
  const AdamWStep now(options_.adamw, options.learning_rate, updates());
  const AdamWStep then(options_.adamw, options.learning_rate, frozen_at_);
  keep_ = static_cast<float>(now.keep);
  step_size_ = static_cast<float>(now.step_size);
  inverse_root_ = static_cast<float>(1 / then.root);
}

void OneBitAdam::Submit(const SubgroupUpdate& update) {
  if (frozen()) return StepByMomentum(update);
  adamw_.Submit(update);
}

void OneBitAdam::StepByMomentum(const SubgroupUpdate& update) {
  const SubgroupShape& shape = shapes_[update.subgroup];
  const auto size = static_cast<size_t>(shape.elements);
  LH_CHECK(updates() > 0, "an update outside Begin");
  LH_CHECK(update.parameters.size() == size && update.gradients.size() == size &&
               (update.shadow.empty() || update.shadow.size() == size),
           "a subgroup has another size, or momentum that is not float32");
  const float keep = shape.decay ? keep_ : 1, eps = static_cast<float>(options_.adamw.eps);
  const absl::Span<float> moment = adamw_.Wide(OptimizerState::kMoment, update.subgroup);
  const absl::Span<const float> variance = this->variance(update.subgroup);
  const auto run = [&](int64_t first, int64_t end) {
    const float* const momentum = update.gradients.data();
    float* const parameters = update.parameters.data();
    std::copy(momentum + first, momentum + end, moment.begin() + first);
    for (int64_t i = first; i < end; ++i) {
      const float change = momentum[i] / (std::sqrt(variance[i]) * inverse_root_ + eps);
      parameters[i] = keep * parameters[i] - (variance[i] > 0 ? step_size_ * change : 0);
    }
    if (update.shadow.empty()) return;
    std::transform(parameters + first, parameters + end, update.shadow.begin() + first, ToBfloat16);
  };
  ForParts(team_, shape.elements, kGrainElements, run);
}

}  // namespace longhaul

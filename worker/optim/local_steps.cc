#include "worker/optim/local_steps.h"

#include <algorithm>

#include "common/base/check.h"

namespace longhaul {

LocalSteps::LocalSteps(absl::Span<const SubgroupShape> subgroups) {
  for (const SubgroupShape& shape : subgroups) subgroups_.push_back({.shape = shape});
}

void LocalSteps::Begin(float gamma, float keep) {
  for (Subgroup& subgroup : subgroups_) {
    subgroup.before.resize(subgroup.shape.elements);
    subgroup.steps.resize(subgroup.shape.elements);
  }
  for (const bool decay : {false, true}) {
    Sums& sums = sums_[decay];
    if (taken_ == 0) sums = {};
    sums.gamma = gamma;
    sums.keep = decay ? keep : 1;
    sums.kept *= sums.keep;
    sums.rates = sums.keep * sums.rates + gamma;
  }
  ++taken_;
}

void LocalSteps::Step(const LocalPart& part, const FrozenScale& scale,
                      absl::Span<const float> moment, absl::Span<float> parameters) {
  LH_CHECK(taken_ > 0, "a local step outside Begin");
  Subgroup& subgroup = subgroups_[part.subgroup];
  const Sums& sums = sums_[subgroup.shape.decay];
  float *const x = parameters.data(), *const u = subgroup.steps.data();
  if (taken_ == 1) {
    std::copy(x + part.first, x + part.end, subgroup.before.begin() + part.first);
    std::fill(u + part.first, u + part.end, 0.0f);
  }
  for (int64_t i = part.first; i < part.end; ++i) {
    x[i] = sums.keep * x[i] - sums.gamma * scale.Of(moment[i], i);
    u[i] = sums.keep * u[i] + sums.gamma * moment[i];
  }
}

void LocalSteps::Synchronize(const LocalPart& part, const FrozenScale& scale,
                             absl::Span<const float> mean, absl::Span<float> moment,
                             absl::Span<float> parameters) const {
  LH_CHECK(taken_ > 0, "nothing to be synchronised");
  const Subgroup& subgroup = subgroups_[part.subgroup];
  const Sums& sums = sums_[subgroup.shape.decay];
  const auto kept = static_cast<float>(sums.kept);
  const auto inverse = static_cast<float>(sums.rates > 0 ? 1 / sums.rates : 0);
  for (int64_t i = part.first; i < part.end; ++i) {
    moment[i] = mean[i] * inverse;
    parameters[i] = kept * subgroup.before[i] - scale.Of(mean[i], i);
  }
}

void LocalSteps::End() { taken_ = 0; }

int64_t LocalSteps::state_bytes() const {
  int64_t bytes = 0;
  for (const Subgroup& subgroup : subgroups_) {
    bytes += static_cast<int64_t>((subgroup.before.size() + subgroup.steps.size()) * sizeof(float));
  }
  return bytes;
}

}  // namespace longhaul

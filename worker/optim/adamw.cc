#include "worker/optim/adamw.h"

#include <algorithm>

#include "common/base/check.h"
#include "worker/optim/adamw_constants.h"
#include "worker/optim/bfloat16.h"

namespace longhaul {
AdamW::AdamW(const AdamWOptions& options, absl::Span<const SubgroupShape> subgroups,
             ThreadTeam* team)
    : options_(options), team_(team) {
  for (const SubgroupShape& shape : subgroups) {
    State& state = subgroups_.emplace_back();
    state.shape = shape;
    for (Values* values : {&state.moment, &state.variance}) {
      if (options.moments == MomentPrecision::kFloat32) {
        values->wide.resize(shape.elements);
      } else {
        values->narrow.resize(shape.elements);
      }
    }
  }
}

void AdamW::Begin(const UpdateOptions& options) {
  ++updates_;
  update_ = options;
}

void AdamW::Submit(const SubgroupUpdate& update) {
  State& state = subgroups_[update.subgroup];
  LH_CHECK(updates_ > 0, "an update outside Begin");
  LH_CHECK(update.Fits(state.shape.elements), "a subgroup has another size");
  if (state.shape.elements == 0) return;
  const AdamWConstants constants =
      MakeAdamWConstants(options_, update_, updates_, state.shape.decay);
  const auto data = [](auto&& values) { return values.empty() ? nullptr : values.data(); };
  const AdamWArrays arrays{.gradients = data(update.gradients),
                           .narrow_gradients = data(update.narrow_gradients),
                           .parameters = data(update.parameters),
                           .shadow = data(update.shadow),
                           .moment = data(state.moment.wide),
                           .variance = data(state.variance.wide),
                           .narrow_moment = data(state.moment.narrow),
                           .narrow_variance = data(state.variance.narrow)};
  AdamWKernel(constants, state.shape.elements, arrays, team_);
}

absl::Status AdamW::ReadState(OptimizerState state, int subgroup, int64_t first,
                              absl::Span<float> values) const {
  const State& kept = subgroups_[subgroup];
  const Values& from = state == OptimizerState::kMoment ? kept.moment : kept.variance;
  if (options_.moments == MomentPrecision::kFloat32) {
    std::copy_n(from.wide.begin() + first, values.size(), values.begin());
  } else {
    std::transform(from.narrow.begin() + first, from.narrow.begin() + first + values.size(),
                   values.begin(), FromBfloat16);
  }
  return absl::OkStatus();
}

absl::Status AdamW::WriteState(OptimizerState state, int subgroup, int64_t first,
                               absl::Span<const float> values) {
  State& kept = subgroups_[subgroup];
  Values& to = state == OptimizerState::kMoment ? kept.moment : kept.variance;
  if (options_.moments == MomentPrecision::kFloat32) {
    std::copy(values.begin(), values.end(), to.wide.begin() + first);
  } else {
    std::transform(values.begin(), values.end(), to.narrow.begin() + first, ToBfloat16);
  }
  return absl::OkStatus();
}

absl::Span<float> AdamW::Wide(OptimizerState state, int subgroup) {
  State& kept = subgroups_[subgroup];
  Values& values = state == OptimizerState::kMoment ? kept.moment : kept.variance;
  return absl::MakeSpan(values.wide);
}

int64_t AdamW::state_bytes() const {
  int64_t elements = 0;
  for (const State& state : subgroups_) elements += state.shape.elements;
  return elements * 2 * MomentBytes(options_.moments);
}

}  // namespace longhaul

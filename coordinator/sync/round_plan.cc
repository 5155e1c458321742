#include "coordinator/sync/round_plan.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"

namespace longhaul {

RoundPlan::RoundPlan(std::vector<FragmentSchedule> schedule, int64_t steps, bool final_round)
    : schedule_(std::move(schedule)), steps_(steps), final_round_(final_round) {
  LH_CHECK(!schedule_.empty() && steps >= 1, "a job has a fragment and a step");
  cycles_ = schedule_[0].rounds;
  for (const FragmentSchedule& fragment : schedule_) cycles_ = std::min(cycles_, fragment.rounds);
}

int64_t RoundPlan::LastVersion(int fragment) const {
  return schedule_[fragment].rounds + (final_round_ ? 1 : 0);
}

RoundKind RoundPlan::KindOf(int fragment, int64_t version) const {
  LH_CHECK(0 <= version && version <= LastVersion(fragment), "no such version in the plan");
  if (version == 0) return RoundKind::kSeed;
  return version <= schedule_[fragment].rounds ? RoundKind::kOuter : RoundKind::kFinal;
}

int64_t RoundPlan::PushStep(int fragment, int64_t version) const {
  switch (KindOf(fragment, version)) {
    case RoundKind::kSeed:
      return 0;
    case RoundKind::kFinal:
      return steps_;
    default:
      return schedule_[fragment].PushStep(version);
  }
}

int64_t RoundPlan::MergeStep(int fragment, int64_t version) const {
  return KindOf(fragment, version) == RoundKind::kOuter ? schedule_[fragment].MergeStep(version)
                                                        : PushStep(fragment, version);
}

int64_t RoundPlan::WholeStep(int64_t version) const {
  int64_t step = 0;
  for (int p = 0; p < fragments(); ++p)
    step = std::max(step, MergeStep(p, std::min(version, LastVersion(p))));
  return step;
}

int64_t RoundPlan::NewestVersion() const {
  int64_t version = 0;
  for (int p = 0; p < fragments(); ++p) version = std::max(version, LastVersion(p));
  return version;
}

int64_t RoundPlan::StepOf(const std::vector<int64_t>& versions) const {
  int64_t step = 0;
  for (int p = 0; p < fragments(); ++p) step = std::max(step, PushStep(p, versions[p]));
  return step;
}

int64_t RoundPlan::CycleStep(int64_t cycle) const {
  return StepOf(std::vector<int64_t>(fragments(), cycle));
}

}  // namespace longhaul

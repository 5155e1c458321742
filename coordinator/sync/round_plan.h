// Which rounds a job has: version 0 is the seed, version r the regular round r of the schedule, and
// after the regular ones, if the job has one, the final round: pushed and merged at the last step.
// Pure value.
#pragma once

#include <cstdint>
#include <vector>

#include "common/schedule/round_kind.h"
#include "common/schedule/schedule.h"

namespace longhaul {

class RoundPlan {
 public:
  RoundPlan(std::vector<FragmentSchedule> schedule, int64_t steps, bool final_round);

  int fragments() const { return static_cast<int>(schedule_.size()); }
  int64_t steps() const { return steps_; }
  // Regular rounds that every fragment has: the cycles after which the outer parameters are of one
  // age.
  int64_t cycles() const { return cycles_; }

  int64_t LastVersion(int fragment) const;
  // What makes `version`: kSeed, kOuter or kFinal. Requires 0 <= version <= LastVersion(fragment).
  RoundKind KindOf(int fragment, int64_t version) const;
  // The inner step at whose end the contributions are taken. 0 for the seed.
  int64_t PushStep(int fragment, int64_t version) const;
  // Push step of the cycle's last round. Requires 1 <= cycle <= cycles().
  int64_t CycleStep(int64_t cycle) const;

 private:
  std::vector<FragmentSchedule> schedule_;
  int64_t steps_;
  bool final_round_;
  int64_t cycles_ = 0;
};

}  // namespace longhaul

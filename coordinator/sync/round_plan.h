// Which rounds a job has. Version 0 is the seed, and version r is the regular round r of the
// schedule. After the regular ones a job may have a final round, which is pushed and merged at the
// last step. Pure value.
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
  // How many regular rounds every fragment has. After each such cycle all outer parameters have the
  // same version.
  int64_t cycles() const { return cycles_; }

  int64_t LastVersion(int fragment) const;
  // The kind of the round that makes `version`: kSeed, kOuter or kFinal. Requires 0 <= version <=
  // LastVersion(fragment).
  RoundKind KindOf(int fragment, int64_t version) const;
  // The inner step at the end of which the contributions are taken; 0 for the seed.
  int64_t PushStep(int fragment, int64_t version) const;
  // The inner step at the end of which the version is merged; 0 for the seed.
  int64_t MergeStep(int fragment, int64_t version) const;
  // The inner step at the end of which every fragment has merged this version, or its last one if
  // that is earlier: where the parameters of this version are whole. Requires 0 <= version.
  int64_t WholeStep(int64_t version) const;
  // The newest version that any fragment gets.
  int64_t NewestVersion() const;
  // The inner step of the newest push in these versions, by fragment.
  int64_t StepOf(const std::vector<int64_t>& versions) const;
  // Push step of the cycle's last round. Requires 1 <= cycle <= cycles().
  int64_t CycleStep(int64_t cycle) const;

 private:
  std::vector<FragmentSchedule> schedule_;
  int64_t steps_;
  bool final_round_;
  int64_t cycles_ = 0;
};

}  // namespace longhaul

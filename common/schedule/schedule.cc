#include "common/schedule/schedule.h"

#include <algorithm>

#include "common/base/check.h"
#include "common/base/checked_math.h"

namespace longhaul {

int64_t FragmentSchedule::RoundPushedAt(int64_t step) const {
  if (step < first_push_step || (step - first_push_step) % period != 0) return 0;
  const int64_t round = (step - first_push_step) / period + 1;
  return round <= rounds ? round : 0;
}

int64_t FragmentSchedule::LastPushedUntil(int64_t step) const {
  if (step < first_push_step) return 0;
  return std::min(rounds, (step - first_push_step) / period + 1);
}

std::vector<FragmentSchedule> MakeSchedule(const ScheduleOptions& options) {
  LH_CHECK(
      options.fragments >= 1 && options.tau >= 0 && options.tau < options.h && options.steps >= 1,
      "a schedule needs fragments >= 1, 0 <= tau < h, steps >= 1");
  std::vector<FragmentSchedule> result;
  for (int p = 0; p < options.fragments; ++p) {
    FragmentSchedule fragment;
    fragment.period = options.h;
    fragment.tau = options.tau;
    fragment.first_push_step = CeilDiv((p + 1) * options.h, options.fragments) - options.tau;
    if (fragment.first_push_step < 1) fragment.first_push_step += options.h;
    const int64_t last_push = options.steps - options.tau;
    if (last_push >= fragment.first_push_step) {
      fragment.rounds = (last_push - fragment.first_push_step) / options.h + 1;
    }
    result.push_back(fragment);
  }
  return result;
}

}  // namespace longhaul

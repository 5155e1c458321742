// Which fragment is pushed and merged at which inner step. There is one schedule in the tree: the
// coordinator makes it from the JobSpec and sends it to the pools as data (Plan); the planner and
// the simulation read the same. Pure values.
//
// Inner steps count from 1. Fragment p of P is first merged at step ceil((p + 1) * H / P), and then
// every H steps. It is pushed tau steps before (both at the end of their step, after the inner
// update). If that first push would come before step 1, the fragment begins one period later.
// (Streaming DiLoCo, Algorithm 2, with t_p staggered over a period.)
#pragma once

#include <cstdint>
#include <vector>

namespace longhaul {

struct FragmentSchedule {
  int64_t first_push_step = 0;
  // H.
  int64_t period = 0;
  int64_t tau = 0;
  // Regular rounds whose merge is not after the last step.
  int64_t rounds = 0;

  // `round` is in [1, rounds].
  int64_t PushStep(int64_t round) const { return first_push_step + (round - 1) * period; }
  int64_t MergeStep(int64_t round) const { return PushStep(round) + tau; }
  // The round that is pushed at `step`, or 0.
  int64_t RoundPushedAt(int64_t step) const;
  // The last round that is pushed at `step` or before it, or 0.
  int64_t LastPushedUntil(int64_t step) const;
};

struct ScheduleOptions {
  int fragments = 1;
  int64_t h = 30, tau = 1, steps = 0;
};

// Requires fragments >= 1, 0 <= tau < h, steps >= 1.
std::vector<FragmentSchedule> MakeSchedule(const ScheduleOptions& options);

}  // namespace longhaul

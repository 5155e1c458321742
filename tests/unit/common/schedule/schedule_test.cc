#include "common/schedule/schedule.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "common/schedule/round_kind.h"

namespace longhaul {
namespace {

std::vector<int64_t> Pushes(const FragmentSchedule& f, int64_t steps) {
  std::vector<int64_t> at;
  for (int64_t step = 1; step <= steps; ++step) {
    if (f.RoundPushedAt(step) != 0) at.push_back(step);
  }
  return at;
}

TEST(ScheduleTest, StaggersTheFragmentsOverAPeriod) {
  const auto schedule = MakeSchedule({.fragments = 3, .h = 30, .tau = 1, .steps = 90});
  EXPECT_EQ(Pushes(schedule[0], 90), (std::vector<int64_t>{9, 39, 69}));
  EXPECT_EQ(Pushes(schedule[1], 90), (std::vector<int64_t>{19, 49, 79}));
  EXPECT_EQ(Pushes(schedule[2], 90), (std::vector<int64_t>{29, 59, 89}));
}

TEST(ScheduleTest, MergesTauStepsAfterThePush) {
  const auto schedule = MakeSchedule({.fragments = 1, .h = 10, .tau = 3, .steps = 30});
  EXPECT_EQ(schedule[0].PushStep(2), 17);
  EXPECT_EQ(schedule[0].MergeStep(2), 20);
}

TEST(ScheduleTest, AFirstPushBeforeStepOneMovesByAPeriod) {
  const auto schedule = MakeSchedule({.fragments = 4, .h = 8, .tau = 2, .steps = 24});
  // For a merge at step 2 the push would be at step 0.
  EXPECT_EQ(schedule[0].first_push_step, 8);
  EXPECT_EQ(schedule[1].first_push_step, 2);
}

TEST(ScheduleTest, WithoutOverlapPushAndMergeAreTheSameStep) {
  const auto schedule = MakeSchedule({.fragments = 1, .h = 2, .tau = 0, .steps = 6});
  EXPECT_EQ(Pushes(schedule[0], 6), (std::vector<int64_t>{2, 4, 6}));
  EXPECT_EQ(schedule[0].MergeStep(3), 6);
}

TEST(ScheduleTest, NoRoundIsMergedAfterTheLastStep) {
  for (int64_t steps = 1; steps <= 40; ++steps) {
    for (int64_t tau : {0, 1, 5, 6}) {
      for (const auto& f : MakeSchedule({.fragments = 3, .h = 7, .tau = tau, .steps = steps})) {
        if (f.rounds > 0) {
          EXPECT_LE(f.MergeStep(f.rounds), steps);
        }
        EXPECT_GT(f.MergeStep(f.rounds + 1), steps);
      }
    }
  }
}

TEST(ScheduleTest, ARoundIsMergedBeforeTheNextIsPushed) {
  for (int64_t tau = 0; tau < 7; ++tau) {
    for (const auto& f : MakeSchedule({.fragments = 2, .h = 7, .tau = tau, .steps = 100})) {
      for (int64_t round = 1; round < f.rounds; ++round)
        EXPECT_LT(f.MergeStep(round), f.PushStep(round + 1));
    }
  }
}

TEST(ScheduleTest, RoundPushedAtIsTheInverseOfPushStep) {
  const auto schedule = MakeSchedule({.fragments = 3, .h = 7, .tau = 2, .steps = 50});
  for (const auto& f : schedule) {
    for (int64_t round = 1; round <= f.rounds; ++round)
      EXPECT_EQ(f.RoundPushedAt(f.PushStep(round)), round);
    EXPECT_EQ(f.RoundPushedAt(f.PushStep(f.rounds + 1)), 0);
    EXPECT_EQ(f.RoundPushedAt(0), 0);
    EXPECT_EQ(f.RoundPushedAt(f.first_push_step - 1), 0);
  }
}

TEST(ScheduleDeathTest, AnOverlapOfAPeriodIsOurMistake) {
  EXPECT_DEATH(MakeSchedule({.fragments = 1, .h = 4, .tau = 4, .steps = 8}), "tau < h");
}

TEST(RoundKindTest, HasANameForEach) {
  EXPECT_STREQ(RoundKindName(RoundKind::kSeed), "seed");
  EXPECT_STREQ(RoundKindName(RoundKind::kSkipped), "skipped");
}

}  // namespace
}  // namespace longhaul

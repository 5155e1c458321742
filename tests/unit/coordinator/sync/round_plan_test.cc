#include "coordinator/sync/round_plan.h"

#include <gtest/gtest.h>

namespace longhaul {
namespace {

// A job of 10 steps. Fragment 0 is pushed at 1, 5, 9; fragment 1 at 3, 7.
RoundPlan Make(bool final_round = true) {
  return RoundPlan(MakeSchedule({.fragments = 2, .h = 4, .tau = 1, .steps = 10}), 10, final_round);
}

TEST(RoundPlanTest, TheFinalRoundFollowsTheRegularOnes) {
  const RoundPlan plan = Make();
  EXPECT_EQ(plan.LastVersion(0), 4);
  EXPECT_EQ(plan.LastVersion(1), 3);
  EXPECT_EQ(plan.KindOf(0, 0), RoundKind::kSeed);
  EXPECT_EQ(plan.KindOf(0, 3), RoundKind::kOuter);
  EXPECT_EQ(plan.KindOf(0, 4), RoundKind::kFinal);
  EXPECT_EQ(plan.KindOf(1, 3), RoundKind::kFinal);
}

TEST(RoundPlanTest, WithoutAFinalRoundTheLastRegularOneIsTheLast) {
  EXPECT_EQ(Make(false).LastVersion(0), 3);
  EXPECT_EQ(Make(false).KindOf(0, 3), RoundKind::kOuter);
}

TEST(RoundPlanTest, PushStepsComeFromTheScheduleAndTheFinalOneIsTheLastStep) {
  const RoundPlan plan = Make();
  EXPECT_EQ(plan.PushStep(0, 0), 0);
  EXPECT_EQ(plan.PushStep(0, 2), 5);
  EXPECT_EQ(plan.PushStep(1, 2), 7);
  EXPECT_EQ(plan.PushStep(1, 3), 10);
}

TEST(RoundPlanTest, ACycleIsARoundThatEveryFragmentHas) {
  EXPECT_EQ(Make().cycles(), 2);
  EXPECT_EQ(Make().CycleStep(1), 3);
  EXPECT_EQ(Make().CycleStep(2), 7);
}

// Merges are a step after their pushes.
TEST(RoundPlanTest, AVersionIsWholeWhereItsLastFragmentIsMerged) {
  EXPECT_EQ(Make().MergeStep(1, 2), 8);
  EXPECT_EQ(Make().MergeStep(1, 3), 10) << "the final round";
  EXPECT_EQ(Make().WholeStep(0), 0);
  EXPECT_EQ(Make().WholeStep(1), 4);
  EXPECT_EQ(Make().WholeStep(2), 8);
  EXPECT_EQ(Make().NewestVersion(), 4);
  EXPECT_EQ(Make().WholeStep(4), 10);
  EXPECT_EQ(Make(false).WholeStep(3), 10) << "fragment 0 is merged last";
}

TEST(RoundPlanTest, AFragmentWithoutRegularRoundsStillHasTheFinalOne) {
  const RoundPlan plan(MakeSchedule({.fragments = 1, .h = 30, .tau = 1, .steps = 5}), 5, true);
  EXPECT_EQ(plan.LastVersion(0), 1);
  EXPECT_EQ(plan.KindOf(0, 1), RoundKind::kFinal);
  EXPECT_EQ(plan.cycles(), 0);
}

}  // namespace
}  // namespace longhaul

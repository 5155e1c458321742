#include "coordinator/job/lifecycle.h"

#include <gtest/gtest.h>

namespace longhaul {
namespace {

constexpr JobState kAll[] = {JobState::kPending,   JobState::kSeeding,    JobState::kRunning,
                             JobState::kFinishing, JobState::kCompleted,  JobState::kFailed,
                             JobState::kCancelled, JobState::kQuarantined};

TEST(LifecycleTest, GoesForwardOneStateAtATime) {
  Lifecycle life;
  for (JobState next :
       {JobState::kSeeding, JobState::kRunning, JobState::kFinishing, JobState::kCompleted}) {
    EXPECT_FALSE(life.ended());
    life.MoveTo(next);
    EXPECT_EQ(life.state(), next);
  }
  EXPECT_TRUE(life.ended());
}

TEST(LifecycleTest, IsCancelledFromEveryLiveStateAndFromNoOther) {
  for (JobState from : kAll)
    EXPECT_EQ(IsLegal(from, JobState::kCancelled), !IsEnded(from)) << JobStateName(from);
}

TEST(LifecycleTest, FailsAndIsQuarantinedFromEveryLiveStateButQuarantined) {
  for (JobState from : kAll) {
    const bool legal = !IsEnded(from) && from != JobState::kQuarantined;
    EXPECT_EQ(IsLegal(from, JobState::kFailed), legal) << JobStateName(from);
    EXPECT_EQ(IsLegal(from, JobState::kQuarantined), legal) << JobStateName(from);
  }
}

TEST(LifecycleTest, APausedJobKeepsItsStateAndShowsAnother) {
  EXPECT_EQ(ShownState(JobState::kRunning, PauseStage::kPausing), JobState::kPausing);
  EXPECT_EQ(ShownState(JobState::kPending, PauseStage::kPaused), JobState::kPaused);
  EXPECT_EQ(ShownState(JobState::kRunning, PauseStage::kResumed), JobState::kRunning);
  EXPECT_EQ(ShownState(JobState::kQuarantined, PauseStage::kPaused), JobState::kQuarantined);
  for (JobState shown : {JobState::kPausing, JobState::kPaused}) {
    EXPECT_FALSE(IsEnded(shown));
    for (JobState from : kAll) EXPECT_FALSE(IsLegal(from, shown));
  }
}

TEST(LifecycleTest, AQuarantinedJobHasNotEnded) {
  Lifecycle life(JobState::kRunning);
  life.MoveTo(JobState::kQuarantined);
  EXPECT_FALSE(life.ended());
  life.MoveTo(JobState::kCancelled);
  EXPECT_TRUE(life.ended());
}

TEST(LifecycleTest, KnowsNoOtherTransition) {
  int legal = 0;
  for (JobState from : kAll) {
    for (JobState to : kAll) legal += IsLegal(from, to);
  }
  // Four steps forward; FAILED, QUARANTINED and CANCELLED from four states; CANCELLED from
  // QUARANTINED.
  EXPECT_EQ(legal, 4 + 3 * 4 + 1);
  EXPECT_FALSE(IsLegal(JobState::kPending, JobState::kRunning));
  EXPECT_FALSE(IsLegal(JobState::kRunning, JobState::kSeeding));
  EXPECT_FALSE(IsLegal(JobState::kRunning, JobState::kRunning));
}

TEST(LifecycleDeathTest, AnIllegalTransitionIsOurMistake) {
  Lifecycle life;
  EXPECT_DEATH(life.MoveTo(JobState::kCompleted), "illegal transition");
}

}  // namespace
}  // namespace longhaul

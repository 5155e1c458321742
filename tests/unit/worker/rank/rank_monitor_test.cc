#include "worker/rank/rank_monitor.h"

#include <gtest/gtest.h>

namespace longhaul {
namespace {

constexpr ProgressLimits kLimits = {
    .at_least = absl::Seconds(60), .factor = 20, .first = absl::Minutes(30)};

void Step(RankMonitor& monitor, int64_t step, absl::Duration took) {
  monitor.BeginStep();
  monitor.EndStep(step, took);
}

TEST(RankMonitorTest, KnowsItsPaceByTheMedian) {
  RankMonitor monitor(kLimits);
  EXPECT_EQ(monitor.Status().expected_seconds, 0);
  Step(monitor, 1, absl::Seconds(100));
  Step(monitor, 2, absl::Seconds(1));
  EXPECT_EQ(monitor.Status().expected_seconds, 0);
  Step(monitor, 3, absl::Seconds(2));
  EXPECT_EQ(monitor.Status(), (RankStatus{.step = 3, .expected_seconds = 2}));
  for (int step = 4; step < 100; ++step) Step(monitor, step, absl::Seconds(5));
  EXPECT_EQ(monitor.Status().expected_seconds, 5);
  monitor.BeginEvaluation(8);
  EXPECT_EQ(monitor.Status().expected_seconds, 40);
  monitor.EndEvaluation();
  EXPECT_EQ(monitor.Status().expected_seconds, 5);
}

TEST(RankMonitorTest, CountsDamagedPulls) {
  RankMonitor monitor(kLimits);
  monitor.PullDamaged();
  monitor.PullDamaged();
  EXPECT_EQ(monitor.Status(), (RankStatus{.damaged_pulls = 2}));
}

TEST(RankMonitorTest, CollectivesFollowThePace) {
  RankMonitor monitor(kLimits);
  EXPECT_EQ(monitor.CollectiveTimeout(), absl::Hours(1));
  for (int step = 1; step < 10; ++step) Step(monitor, step, absl::Seconds(1));
  EXPECT_EQ(monitor.CollectiveTimeout(), absl::Hours(1)) << "a peer may wait for its commit";
  monitor.BeginStep();
  EXPECT_EQ(monitor.CollectiveTimeout(), absl::Minutes(2));
  monitor.EndStep(10, absl::Seconds(1));
  monitor.BeginEvaluation(10);
  EXPECT_EQ(monitor.CollectiveTimeout(), absl::Seconds(400));
}

// Whatever the rank does, its own wait ends first, then the agent ends the rank, then its peers
// give up.
TEST(RankMonitorTest, DeadlinesFollowEachOther) {
  for (const absl::Duration at_least : {absl::Seconds(2), absl::Seconds(60), absl::Hours(24)}) {
    const ProgressLimits limits = {.at_least = at_least, .factor = 20, .first = absl::Minutes(30)};
    RankMonitor monitor(limits);
    const auto expect_order = [&](const char* what) {
      const absl::Duration agent = limits.Of(monitor.Status().expected_seconds);
      EXPECT_GE(monitor.OwnPatience(), 0.7 * agent) << what;
      EXPECT_LE(monitor.OwnPatience(), 0.8 * agent) << what;
      EXPECT_GE(monitor.CollectiveTimeout(), 2 * agent) << what;
    };
    expect_order("before the first step");
    monitor.BeginStep();
    expect_order("in the first step");
    monitor.EndStep(1, absl::Seconds(30));
    for (int step = 2; step < 10; ++step) Step(monitor, step, absl::Seconds(30));
    expect_order("between steps");
    monitor.BeginStep();
    expect_order("in a step");
    monitor.EndStep(10, absl::Seconds(30));
    monitor.BeginEvaluation(8);
    expect_order("in an evaluation");
  }
}

TEST(RankMonitorTest, KnowsWhenACollectiveRuns) {
  RankMonitor monitor(kLimits);
  EXPECT_EQ(monitor.BeginCollective(), absl::Hours(1));
  EXPECT_TRUE(monitor.Status().in_collective);
  monitor.EndCollective();
  EXPECT_FALSE(monitor.Status().in_collective);
}

TEST(RankMonitorTest, SaysWhatItWaitsFor) {
  RankMonitor monitor(kLimits);
  monitor.WaitsFor("fragment 0 version 1");
  EXPECT_EQ(monitor.Status().waits_for, "fragment 0 version 1");
  monitor.WaitsFor("");
  EXPECT_EQ(monitor.Status().waits_for, "");
}

}  // namespace
}  // namespace longhaul

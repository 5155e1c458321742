#include "coordinator/cli/progress.h"

#include <algorithm>
#include <sstream>

#include "cli_runner.h"
#include "coordinator/cli/text.h"
#include "coordinator/cli/views.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sample_job.h"

namespace longhaul::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

const absl::Time kStart = absl::FromUnixSeconds(1700000010);

TEST(ProgressTest, TextLeavesOutWhatIsNotKnown) {
  v1::Job job;
  job.set_state(v1::PENDING);
  job.set_waiting_for("2 pools (1 ready)");
  job.mutable_spec()->mutable_train()->set_steps(10);
  EXPECT_EQ(ProgressText(job, kStart), "PENDING  waiting for 2 pools (1 ready)  step 0/10");
}

TEST(ProgressTest, EtaFollowsFromTheStepsSoFar) {
  // 1200 of 6000 steps in 50 s: 200 s are left.
  EXPECT_THAT(ProgressText(SampleJob(), kStart + absl::Seconds(50)), HasSubstr("ETA 3m20s"));
  EXPECT_THAT(ProgressText(SampleJob(v1::COMPLETED), kStart), Not(HasSubstr("ETA")));
}

TEST(ProgressTest, EtaLeavesOutPauses) {
  v1::Job job = SampleJob();
  v1::PoolProgress* pool = job.mutable_pools(0);
  pool->set_compute_seconds(40);
  pool->set_sync_seconds(1);
  pool->set_eval_seconds(2);
  pool->set_exposed_wait_seconds(7);
  job.mutable_pools(1)->set_compute_seconds(20);  // Came later.
  EXPECT_THAT(ProgressText(job, kStart + absl::Hours(50)), HasSubstr("ETA 3m20s"));
}

TEST(ProgressTest, WritesALineForNewsAndElseEveryFewSeconds) {
  std::ostringstream out;
  Progress progress(out, /*terminal=*/nullptr);
  const auto lines = [&] {
    const std::string text = out.str();
    return std::count(text.begin(), text.end(), '\n');
  };
  v1::Job job = SampleJob();
  progress.Show(job, kStart);
  progress.Show(job, kStart + absl::Seconds(1));
  EXPECT_EQ(lines(), 1);
  progress.Show(job, kStart + absl::Seconds(5));
  EXPECT_EQ(lines(), 2);
  job.mutable_eval_loss()->set_evaluations(3);
  progress.Show(job, kStart + absl::Seconds(6));
  EXPECT_EQ(lines(), 3);
  job.set_waiting_for("pool west");
  progress.Show(job, kStart + absl::Seconds(6));
  EXPECT_EQ(lines(), 4);
}

TEST(ProgressTest, ALineFitsEveryWidth) {
  v1::Job job = SampleJob();
  job.set_waiting_for("2 pools (1 ready), for 3m20s, and something else that takes long to say");
  const absl::Time now = kStart + absl::Seconds(50);
  for (int columns = 1; columns < 300; ++columns)
    EXPECT_LE(ColumnsOf(ProgressLine(job, now, columns)), columns) << columns;
  EXPECT_EQ(ProgressLine(job, now, 20), "[....]  20 %");
  EXPECT_EQ(ProgressLine(SampleJob(), now, 30), "[#.....]  20 %  ETA 3m20s");
  EXPECT_THAT(ProgressLine(SampleJob(), now, 79),
              AllOf(HasSubstr("RUNNING"), HasSubstr("step 1200/6000"), HasSubstr("loss 2.5000"),
                    HasSubstr("ETA 3m20s"), Not(HasSubstr("tokens/s"))));
  EXPECT_THAT(ProgressLine(SampleJob(), now, 200), HasSubstr("4.0k tokens/s"));
}

TEST(ProgressTest, CountsAreOfWhatTheJobTrainsOn) {
  v1::Job job = SampleJob();
  EXPECT_THAT(JobTable(job, kStart), AllOf(HasSubstr("tokens "), HasSubstr("TOKENS/S")));
  job.set_unit_name("nodes");
  EXPECT_THAT(ProgressLine(job, kStart, 200), HasSubstr("4.0k nodes/s"));
  EXPECT_THAT(JobTable(job, kStart),
              AllOf(HasSubstr("nodes "), HasSubstr("NODES/S"), Not(HasSubstr("okens"))));
}

TEST(ProgressTest, WhatIsAwaitedIsClippedRatherThanLeftOut) {
  v1::Job job = SampleJob(v1::PENDING);
  job.set_waiting_for("2 pools of the names east and west (1 ready)");
  EXPECT_THAT(ProgressLine(job, kStart, 60), HasSubstr("waiting for 2 pools"));
}

TEST(ProgressTest, ANoteBeginsBelowTheBar) {
  std::ostringstream out;
  const FakeTerminal terminal(80);
  Progress progress(out, &terminal);
  progress.Show(SampleJob(), kStart);
  progress.Note("connection lost");
  EXPECT_THAT(out.str(), HasSubstr("\x1b[K\nconnection lost\n"));
}

}  // namespace
}  // namespace longhaul::cli

#include "coordinator/service/job_progress.h"

#include <gtest/gtest.h>

#include <limits>

namespace longhaul::coordinator {
namespace {

v1::PoolProgress Told(int64_t step, int64_t tokens, double compute = 0) {
  v1::PoolProgress progress;
  progress.set_inner_step(step);
  progress.set_tokens(tokens);
  progress.set_compute_seconds(compute);
  return progress;
}

TEST(JobProgressTest, TheNewestReportOfAnIncarnationCounts) {
  JobProgress progress(1);
  progress.Report("a", 0, 0, Told(10, 100, 1));
  progress.Report("a", 0, 0, Told(20, 200, 2));
  const PoolHistory& pool = progress.pools().at("a");
  EXPECT_EQ(pool.Total().tokens(), 200);
  EXPECT_EQ(pool.steps(), 20);
}

TEST(JobProgressTest, AnotherIncarnationGoesOnCounting) {
  JobProgress progress(1);
  progress.Report("a", 0, 0, Told(20, 200, 2));
  progress.Report("a", 3, 15, Told(25, 50, 1));  // It began at step 15.
  const PoolHistory& pool = progress.pools().at("a");
  EXPECT_EQ(pool.Total().tokens(), 250);
  EXPECT_DOUBLE_EQ(pool.Total().compute_seconds(), 3);
  EXPECT_EQ(pool.Total().inner_step(), 25);
  EXPECT_EQ(pool.steps(), 30);
}

TEST(JobProgressTest, NoReportMakesASumOverflow) {
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  JobProgress progress(1);
  for (int ordinal = 0; ordinal < 20; ++ordinal) {
    progress.Report("a", ordinal, 0, Told(kMax, kMax));
    EXPECT_EQ(progress.pools().at("a").Total().tokens(), int64_t{1} << 50);
    EXPECT_EQ(progress.pools().at("a").steps(), int64_t{1} << 50);
  }
}

TEST(JobProgressTest, GoesOnAfterARestart) {
  JobProgress before(1);
  before.Report("a", 0, 0, Told(20, 200));
  before.Report("a", 1, 15, Told(25, 50));
  v1::Job saved;
  before.Save(&saved);
  JobProgress after(1);
  after.Restore(saved, {{.pool = "a", .ordinal = 0, .start_step = 0},
                        {.pool = "a", .ordinal = 1, .start_step = 15}});
  EXPECT_EQ(after.pools().at("a").Total().tokens(), 250);
  EXPECT_EQ(after.pools().at("a").steps(), 30);
  after.Report("a", 1, 15, Told(26, 60));
  EXPECT_EQ(after.pools().at("a").Total().tokens(), 260);
  EXPECT_EQ(after.pools().at("a").steps(), 31);
}

TEST(JobProgressTest, NumbersThatCannotBeAreZero) {
  JobProgress progress(1);
  progress.Report("a", 0, 0, Told(-5, -7, std::numeric_limits<double>::quiet_NaN()));
  EXPECT_EQ(progress.pools().at("a").Total().tokens(), 0);
  EXPECT_EQ(progress.pools().at("a").Total().compute_seconds(), 0);
  EXPECT_EQ(progress.pools().at("a").steps(), 0);
}

TEST(JobProgressTest, LossesFirstLastAndBest) {
  JobProgress progress(1);
  EXPECT_EQ(progress.EvaluationLoss().evaluations(), 0);
  progress.AddEvaluation({.step = 30, .loss = 2});
  progress.AddEvaluation({.step = 10, .loss = 3});
  progress.AddEvaluation({.step = 20, .loss = 1});
  progress.AddEvaluation({.step = 30, .loss = 1.5, .final = true});
  progress.AddEvaluation({.step = 20, .loss = 1});  // Repeated.
  const v1::EvalLoss loss = progress.EvaluationLoss();
  EXPECT_DOUBLE_EQ(loss.first(), 3);
  EXPECT_DOUBLE_EQ(loss.last(), 1.5);
  EXPECT_DOUBLE_EQ(loss.best(), 1);
  EXPECT_EQ(loss.last_step(), 30);
  EXPECT_EQ(loss.evaluations(), 4);
}

}  // namespace
}  // namespace longhaul::coordinator

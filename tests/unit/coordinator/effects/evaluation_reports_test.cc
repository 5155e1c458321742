#include "coordinator/effects/evaluation_reports.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "common/config/job_spec.h"
#include "common/rpc/status_details.h"
#include "tests/unit/coordinator/effects/live_job_testing.h"

namespace longhaul::coordinator {
namespace {

class EvaluationReportsTest : public ::testing::Test {
 protected:
  void Commits(int64_t version, const std::string& evaluator = "") {
    job_->progress.SetCommit({.round = {0, version}});
    job_->progress.SetCommit({.round = {1, version}, .evaluator = evaluator});
  }
  int64_t StepOf(int64_t version) { return StepOfEvaluation(*job_->resolved, version, false); }
  // As the performer does.
  void Stored(const std::string& pool, const Evaluation& e) {
    job_->progress.AddEvaluation(
        {.job_id = "id", .step = e.step, .version = e.version, .loss = e.loss, .final = e.final});
    EvaluationsStored(*job_, pool, {e});
  }

  std::shared_ptr<LiveJob> job_ = RunningSyntheticJob();
};

TEST_F(EvaluationReportsTest, NoneIsTakenBeforeTheCommitsAreKnown) {
  const auto reports = TakeEvaluations(*job_, "a", {{.version = 1, .loss = 2}});
  ASSERT_TRUE(reports.ok());
  EXPECT_TRUE(reports->taken.empty());
  EXPECT_EQ(reports->refused, 0) << "the pool repeats its report";
}

TEST_F(EvaluationReportsTest, OneOfAVersionThatIsNotCommittedIsRefused) {
  Commits(0);
  Commits(1, "a");
  for (const Evaluation& e :
       {Evaluation{.version = 0}, Evaluation{.version = 2},
        Evaluation{.version = 2, .of_pool = true}, Evaluation{.version = 1, .final = true}}) {
    const auto reports = TakeEvaluations(*job_, "a", {{.version = 1}, e});
    EXPECT_TRUE(absl::IsInvalidArgument(reports.status())) << e.version;
    EXPECT_EQ(FieldViolationsOf(reports.status())[0].field, "evaluations");
  }
}

TEST_F(EvaluationReportsTest, OnlyTheFirstOfThePoolThatWasAskedIsTaken) {
  Commits(0);
  Commits(1, "a");
  auto reports = TakeEvaluations(*job_, "b", {{.version = 1, .loss = 9}});
  ASSERT_TRUE(reports.ok());
  EXPECT_TRUE(reports->taken.empty());
  EXPECT_EQ(reports->refused, 1);
  reports = TakeEvaluations(*job_, "a", {{.version = 1, .loss = 2}, {.version = 1, .loss = 3}});
  ASSERT_EQ(reports->taken.size(), 1);
  EXPECT_EQ(reports->taken[0].loss, 2);
  Stored("a", reports->taken[0]);
  for (const std::string pool : {"a", "b"}) {
    reports = TakeEvaluations(*job_, pool, {{.version = 1, .loss = 9}});
    EXPECT_TRUE(reports->taken.empty());
    EXPECT_EQ(reports->refused, 0) << "it is repeated, as after an answer that was lost";
  }
}

// They are kept by step.
TEST_F(EvaluationReportsTest, TheStepFollowsFromTheVersion) {
  Commits(0);
  Commits(1, "a");
  Commits(2, "a");
  ASSERT_NE(StepOf(1), StepOf(2));
  const auto reports = TakeEvaluations(*job_, "a",
                                       {{.step = StepOf(1), .version = 2, .loss = 2},
                                        {.step = 7, .version = 2, .loss = 3, .of_pool = true}});
  ASSERT_EQ(reports->taken.size(), 2);
  EXPECT_EQ(reports->taken[0].step, StepOf(2));
  EXPECT_EQ(reports->taken[1].step, 7) << "a pool's own are kept as it says";
}

TEST_F(EvaluationReportsTest, EveryPoolMayReportTheFinalOne) {
  Commits(0);
  Commits(1, "a");
  job_->record.state = JobState::kFinishing;
  const auto reports = TakeEvaluations(*job_, "b", {{.version = 1, .loss = 2, .final = true}});
  ASSERT_TRUE(reports.ok());
  EXPECT_EQ(reports->taken.size(), 1) << "the core takes the first";
}

// Where each pool has held-out data of its own.
TEST_F(EvaluationReportsTest, OfAGraphEveryPoolReportsEachVersionOnce) {
  v1::JobSpec spec;
  spec.set_name("job");
  spec.mutable_model()->mutable_graph_sage()->set_columns(4);
  spec.mutable_model()->mutable_graph_sage()->set_classes(2);
  spec.mutable_data()->mutable_graph()->set_path("graph");
  spec.mutable_train()->set_steps(60);
  spec.mutable_train()->set_batch(10);
  spec.mutable_sync()->set_h(10);
  spec.mutable_sync()->mutable_fragments()->set_balanced(2);
  spec.mutable_inner()->mutable_adamw()->set_lr(0.01);
  absl::StatusOr<ResolvedJob> resolved = ResolveJobSpec(spec);
  ASSERT_TRUE(resolved.ok()) << resolved.status();
  job_ =
      *MakeLiveJob({.id = "id", .name = "job", .state = JobState::kRunning}, *std::move(resolved));
  Commits(0);
  Commits(1);
  for (const std::string pool : {"a", "b"}) {
    auto reports = TakeEvaluations(
        *job_, pool, {{.version = 1, .loss = 2}, {.version = 1, .loss = 3, .of_pool = true}});
    ASSERT_EQ(reports->taken.size(), 2u) << pool;
    EXPECT_EQ(reports->taken[0].step, StepOf(1));
    EXPECT_EQ(reports->refused, 0);
    EvaluationsStored(*job_, pool, reports->taken);
    reports = TakeEvaluations(*job_, pool, {{.version = 1, .loss = 2}});
    EXPECT_TRUE(reports->taken.empty()) << "it is repeated";
  }
}

}  // namespace
}  // namespace longhaul::coordinator

// The guard of a job that diverges, beyond its transcript.
#include <cmath>
#include <limits>

#include "tests/unit/coordinator/core/coordinator_testing.h"

namespace longhaul::coordinator {
namespace {

class GuardTest : public CoordinatorTest {
 protected:
  static JobOptions Guarded(DivergenceAction action) {
    JobOptions options = Options();
    options.checkpoint_every_cycles = 1;
    options.guard = {action, absl::Seconds(5), std::log(256)};
    return options;
  }
  Decision Evaluate(int64_t step, double loss, bool final = false) {
    return Do(
        Heartbeat{.pool = "a",
                  .incarnation = "1",
                  .job = "j",
                  .inner_step = step,
                  .finished = final,
                  .merged = final,
                  .evaluations = {{.step = step, .version = 1, .loss = loss, .final = final}}});
  }
};

TEST_F(GuardTest, AJobThatDivergesIsFailedIfItsSpecWantsThat) {
  RunJob(Guarded(DivergenceAction::kFail));
  Evaluate(3, 42);
  EXPECT_EQ(View().divergence->since, now_);
  Evaluate(4, std::nan(""));
  At(5);
  const StoreJobState end = One<StoreJobState>(Do(Tick{}).records);
  EXPECT_EQ(end.state, JobState::kFailed);
  EXPECT_EQ(end.fault->code, "DIVERGED");
  EXPECT_EQ(end.fault->message,
            "training diverged: the held-out loss of the outer parameters at step 4 is not a "
            "finite number");
}

TEST_F(GuardTest, AJobThatRecoversContinues) {
  RunJob(Guarded(DivergenceAction::kPause));
  Evaluate(3, 42);
  Evaluate(4, 42);
  At(4);
  Evaluate(5, 3);
  At(9);
  EXPECT_TRUE(Nothing(Do(Tick{})));
  EXPECT_EQ(View().state, JobState::kRunning);
  EXPECT_FALSE(View().divergence.has_value());
}

TEST_F(GuardTest, WithoutAGuardNothingHappens) {
  RunJob(Guarded(DivergenceAction::kNone));
  Evaluate(3, 42);
  Evaluate(4, 42);
  At(9);
  EXPECT_TRUE(Nothing(Do(Tick{})));
  EXPECT_TRUE(View().divergence->lasts);
  Complete(1);
  EXPECT_EQ(One<WriteCheckpoint>(Do(RoundApplied{"j", {0, 1}}).works).cycle, 1);
}

TEST_F(GuardTest, NoCheckpointOfADivergedJobTakesThePlaceOfAGoodOne) {
  RunJob(Guarded(DivergenceAction::kPause));
  Do(JoinPool{"a", "1", 2, false, {"assignment:stop"}});
  Evaluate(3, 42);
  Complete(1);
  EXPECT_TRUE(All<WriteCheckpoint>(Do(RoundApplied{"j", {0, 1}}).works).empty());
  Evaluate(4, 42);
  At(5);
  const StorePause pause = One<StorePause>(Do(Tick{}).records);
  EXPECT_EQ(pause.stage, PauseStage::kPausing);
  EXPECT_EQ(pause.by, "guard");
  Heartbeat stopped{"a", "1", "j", 4};
  stopped.stopping = stopped.stopped = true;
  const Decision last = Do(stopped);
  EXPECT_TRUE(All<WriteCheckpoint>(last.works).empty());
  EXPECT_EQ(One<StorePause>(last.records).stage, PauseStage::kPaused);
  // A user resumes it nevertheless: it begins to count anew.
  Do(ResumeJob{"j", "ann"});
  EXPECT_FALSE(View().divergence.has_value());
}

TEST_F(GuardTest, AJobWhoseLastEvaluationIsBadIsNotCompleted) {
  for (const auto action : {DivergenceAction::kPause, DivergenceAction::kNone}) {
    core_ = Coordinator({}, {}, now_);
    FinishJob(Guarded(action));
    const Decision evaluated = Evaluate(8, 84, /*final=*/true);
    EXPECT_TRUE(One<WriteCheckpoint>(evaluated.works).final);
    const StoreJobState end = One<StoreJobState>(Do(CheckpointWritten{"j", true, 0, true}).records);
    const bool completes = action == DivergenceAction::kNone;
    EXPECT_EQ(end.state, completes ? JobState::kCompleted : JobState::kFailed);
    EXPECT_EQ(end.fault.has_value(), !completes);
  }
}

// The restart came between the last evaluation and the end.
TEST_F(GuardTest, ARestartRemembersTheLastEvaluation) {
  RecoveredJob job = Recovered("j", JobState::kFinishing, {{"a", "1", 0, 0, true}},
                               Guarded(DivergenceAction::kPause));
  job.final_evaluation = true;
  job.evaluation = {8, 84.0};
  core_ = Coordinator({}, {.jobs = {job}}, now_);
  Do(Tick{});
  Do(StoreOpened{"j", {{.version = 3}}});
  const Decision written = Do(CheckpointWritten{"j", true, 0, true});
  EXPECT_EQ(One<StoreJobState>(written.records).state, JobState::kFailed);
}

}  // namespace
}  // namespace longhaul::coordinator

// Pauses, beyond their transcripts: what does not stop, fails or must not be written.
#include "tests/unit/coordinator/core/coordinator_testing.h"

namespace longhaul::coordinator {
namespace {

using PauseTest = CoordinatorTest;

Heartbeat Stops(const std::string& pool, int64_t step, bool stopped,
                const std::string& incarnation = "1") {
  Heartbeat heartbeat{pool, incarnation, "j", step};
  heartbeat.stopping = true;
  heartbeat.stopped = stopped;
  return heartbeat;
}

TEST_F(PauseTest, APoolThatDoesNotStopIsReleasedAfterAWhile) {
  RunJob();
  Do(JoinPool{"a", "1", 2, false, {"assignment:stop"}});
  EXPECT_EQ(One<StorePause>(Do(PauseJob{"j", "ann", "night"}).records).by, "ann");
  EXPECT_TRUE(Answered<GrantLease>(Heartbeat{"a", "1", "j", 2}).assignment->stop);
  EXPECT_EQ(core_.pools()[0].state, PoolState::kDraining);
  EXPECT_EQ(View().waiting->until, absl::UnixEpoch() + absl::Minutes(10));
  int seconds = 0;
  for (; View().state == JobState::kPausing && seconds < 1000; seconds += 5) {
    At(seconds);
    Do(Heartbeat{"a", "1", "j", 2});
  }
  EXPECT_EQ(seconds, 605);
  EXPECT_EQ(View().state, JobState::kPaused);
  EXPECT_FALSE(View().waiting.has_value());
  EXPECT_EQ(core_.pools()[0].state, PoolState::kIdle);
}

TEST_F(PauseTest, APoolOfSeveralNodesHasStoppedWhenAllItsNodesHave) {
  for (const char* agent : {"1", "2"}) {
    Do(JoinPool{.pool = "a",
                .incarnation = agent,
                .capabilities = {"assignment:stop"},
                .nodes = 2,
                .fresh = "g"});
  }
  Do(SubmitJob{"j", Options()});
  Do(RankReady{"j", "a", "g", 0});
  Do(StoreOpened{"j", {{}}});
  Do(PauseJob{"j"});
  for (const char* agent : {"1", "2"}) {
    EXPECT_EQ(View().state, JobState::kPausing);
    Heartbeat stopped{"a", agent, "j", 2};
    EXPECT_TRUE(Answered<GrantLease>(stopped).assignment->stop);
    stopped.running = "g";
    stopped.stopped = true;
    Do(stopped);
  }
  EXPECT_EQ(View().state, JobState::kPaused);
  EXPECT_EQ(core_.pools()[0].state, PoolState::kIdle);
}

TEST_F(PauseTest, ARoundThatWaitsForTheDiskIsCommittedBeforeTheJobIsPaused) {
  RunJob();
  Do(JoinPool{"a", "1", 2, false, {"assignment:stop"}});
  Complete(1);
  Do(PauseJob{"j"});
  Do(Stops("a", 4, true));
  EXPECT_EQ(View().waiting->what, "its rounds to be committed");
  Do(ApplyFailed{"j", {0, 1}, {.retry = true, .fault = {.message = "no space left"}}});
  EXPECT_EQ(View().waiting->what, "the coordinator: no space left");
  At(1);
  EXPECT_EQ(One<ApplyRound>(Do(Tick{}).works).round.version, 1);
  const Decision applied = Do(RoundApplied{"j", {0, 1}});
  EXPECT_FALSE(One<WriteCheckpoint>(applied.works).last);
  EXPECT_EQ(View().state, JobState::kPausing);
  // The log has everything, too. So the job does not wait for a checkpoint that fails.
  const Decision failed = Do(CheckpointFailed{"j", false, {.retry = true}});
  EXPECT_EQ(One<StorePause>(failed.records).stage, PauseStage::kPaused);
}

// Else a job that begins with it, or a download, would find other bytes in it one day.
TEST_F(PauseTest, APausesCheckpointIsNotOneThatALaterOneReplaces) {
  JobOptions options = Options();
  options.schedule = MakeSchedule({.fragments = 2, .h = 4, .tau = 0, .steps = 8});
  options.checkpoint_every_cycles = 1;
  Do(SubmitJob{"j", options});
  std::string incarnation = "1";
  const auto begin = [&] {
    JoinPool join{"a", incarnation, 2, false, {"assignment:stop"}};
    join.replaces = "1";
    Do(join);
    Do(RankReady{"j", "a", incarnation, 0});
  };
  const auto commit = [&](int fragment, int64_t version, RoundKind kind) {
    Do(ContributionComplete{{"j", "a", incarnation, {fragment, version, kind}}});
    return Do(RoundApplied{"j", {fragment, version}});
  };
  begin();
  Do(StoreOpened{"j", {{}, {}}});
  for (int fragment : {0, 1}) commit(fragment, 0, RoundKind::kSeed);
  commit(0, 1, RoundKind::kOuter);
  EXPECT_EQ(One<WriteCheckpoint>(commit(1, 1, RoundKind::kOuter).works).cycle, 1);
  Do(CheckpointWritten{"j", false, 1});
  // The checkpoint of this cycle is there.
  Do(PauseJob{"j"});
  EXPECT_TRUE(All<WriteCheckpoint>(Do(Stops("a", 4, true)).works).empty());
  EXPECT_EQ(View().state, JobState::kPaused);
  Do(StoreClosed{"j"});
  // Fragment 1 was pushed later, and is committed first.
  Do(ResumeJob{"j"});
  RecoveredFragment one{.version = 1};
  Do(StoreOpened{"j", {one, one}});
  incarnation = "2";
  begin();
  commit(1, 2, RoundKind::kOuter);
  Do(PauseJob{"j"});
  EXPECT_TRUE(All<WriteCheckpoint>(Do(Stops("a", 8, true, incarnation)).works).empty());
  EXPECT_EQ(View().state, JobState::kPaused);
}

// Version 1 of a job with two pools is called, and the job is paused. Pool a has stopped.
class QuorumPauseTest : public CoordinatorTest {
 protected:
  QuorumPauseTest() {
    JobOptions options = Options("j", 2);
    options.rounds = {.quorum = 1, .grace = absl::Hours(1)};
    Do(SubmitJob{"j", options});
    for (const char* pool : {"a", "b"}) Do(JoinPool{pool, "1", 2, false, {"assignment:stop"}});
    for (const char* pool : {"a", "b"}) Do(RankReady{"j", pool, "1", 0});
    Do(StoreOpened{"j", {{}}});
    Complete(0, RoundKind::kSeed);
    Do(RoundApplied{"j", {0, 0}});
    Complete(1);
    Do(PauseJob{"j"});
    Do(Stops("a", 4, true));
  }
};

TEST_F(QuorumPauseTest, TheRoundIsAppliedFirst) {
  // b is ended before it has sent its contribution.
  Heartbeat ended{"b", "1", "j", 4};
  ended.stopped = true;
  // Nobody can contribute any more, so the grace is not waited for.
  EXPECT_EQ(One<ApplyRound>(Do(ended).works).contributors.size(), 1u);
  EXPECT_EQ(View().state, JobState::kPausing);
  EXPECT_EQ(View().waiting->what, "its rounds to be committed");
  EXPECT_EQ(One<WriteCheckpoint>(Do(RoundApplied{"j", {0, 1}}).works).step, 3);
  Do(CheckpointWritten{"j", false, 0});
  EXPECT_EQ(View().state, JobState::kPaused);
}

TEST_F(QuorumPauseTest, TheRoundDoesNotWaitForALostPool) {
  At(11);
  EXPECT_EQ(One<ApplyRound>(Do(Tick{}).works).contributors.size(), 1u);
  Do(RoundApplied{"j", {0, 1}});
  Do(CheckpointWritten{"j", false, 0});
  EXPECT_EQ(View().state, JobState::kPaused);
}

TEST_F(PauseTest, WhatFailedWhileAJobPausesIsFoundAtTheNextStart) {
  RunJob();
  Do(PauseJob{"j"});
  RecoveredJob paused = Recovered("j", JobState::kRunning, {{"a", "1", 0, 0, true}}, Options());
  paused.pause = PauseStage::kPausing;
  core_ = Coordinator({}, {.jobs = {paused}}, now_);
  EXPECT_EQ(One<OpenStore>(Do(Tick{}).works).job, "j");
  Do(StoreFailed{"j", {.message = "broken"}});
  EXPECT_EQ(View().state, JobState::kQuarantined);
  EXPECT_EQ(Answered<Refuse>(ResumeJob{"j"}).reason, "JOB_QUARANTINED");
  Do(CancelJob{"j"});
  EXPECT_EQ(Answered<Refuse>(PauseJob{"j"}).reason, "JOB_ENDED");
}

TEST_F(PauseTest, AJobThatIsAboutToEndIsNamedAsItsUserDoes) {
  FinishJob(Options("train"));
  const Refuse refusal = Answered<Refuse>(PauseJob{"j"});
  EXPECT_EQ(refusal.reason, "JOB_FINISHING");
  EXPECT_EQ(refusal.status.message(), "job train is about to end: its last rounds are committed");
}

TEST_F(PauseTest, AStreamOfAPausedJobIsRefusedForGood) {
  RunJob();
  Do(PauseJob{"j"});
  ASSERT_EQ(View().state, JobState::kPaused);
  EXPECT_EQ(core_.Judge({"j", "a", "1", 0, 1})->reason, "POOL_LOST");
  EXPECT_EQ(core_.CheckReader("j", "a", "1")->reason, "NOT_ASSIGNED");
}

}  // namespace
}  // namespace longhaul::coordinator

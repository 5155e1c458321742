// What the transcripts (tests/scenarios) do not show: bounds, views, deadlines, const questions,
// and events that change nothing.

#include <cmath>

#include "tests/unit/coordinator/core/coordinator_testing.h"

namespace longhaul::coordinator {
namespace {

// --- Events and answers.

TEST_F(CoordinatorTest, APlaceIsStoredInTheStepThatAnswersWithIt) {
  EXPECT_EQ(One<StoreNewJob>(Do(SubmitJob{"j", Options()}).records).job, "j");
  const Decision joined = Do(JoinPool{"a", "1", 1});
  EXPECT_EQ(One<StorePlace>(joined.records).place.pool, "a");
  ASSERT_TRUE(joined.answer.has_value());
  EXPECT_EQ(std::get<GrantLease>(*joined.answer).assignment->job, "j");
}

// A single user may have one half, two a third each.
TEST_F(CoordinatorTest, AUserLeavesRoomForOthers) {
  core_ = Coordinator({.jobs_max = 6}, {}, now_);
  for (const char* job : {"a", "b", "c"})
    EXPECT_FALSE(Do(SubmitJob{job, Options(), "ann"}).answer.has_value());
  const Refuse refuse = Answered<Refuse>(SubmitJob{"d", Options(), "ann"});
  EXPECT_EQ(refuse.reason, "JOBS_FULL");
  EXPECT_TRUE(absl::IsResourceExhausted(refuse.status));
  EXPECT_FALSE(Do(SubmitJob{"d", Options(), "bob"}).answer.has_value());
  Do(CancelJob{"a"});
  Do(CancelJob{"b"});
  EXPECT_FALSE(Do(SubmitJob{"e", Options(), "ann"}).answer.has_value());
}

// The places come back after a restart, also those of jobs that this program cannot use.
TEST_F(CoordinatorTest, WhatJobsBeginWithIsNamedUntilTheyAreSeeded) {
  JobOptions begins = Options();
  begins.from_checkpoint = true;
  begins.from_job = "base";
  begins.from_step = 100;
  RecoveredJob unusable = Recovered("unusable", JobState::kPending, {}, begins);
  unusable.unusable = JobFault{.message = "an unknown field"};
  begins.from_step = 200;
  RecoveredJob seeding = Recovered("seeding", JobState::kSeeding, {}, begins);
  RecoveredJob running = Recovered("running", JobState::kRunning, {}, begins);
  JobOptions sent = Options();
  sent.from_upload = "sent";
  core_ = Coordinator(
      {}, {.jobs = {unusable, seeding, running, Recovered("sent", JobState::kPending, {}, sent)}},
      now_);
  EXPECT_EQ(core_.InitialSteps("base"), (std::set<int64_t>{100, 200}));
  EXPECT_EQ(core_.InitialUploads(), (std::set<std::string>{"sent"}));
  EXPECT_EQ(Answered<Refuse>(DeleteJob{"base"}).reason, "CHECKPOINT_IN_USE");
  Do(CancelJob{"unusable"});
  Do(CancelJob{"seeding"});
  EXPECT_EQ(core_.InitialSteps("base"), std::set<int64_t>{});
  EXPECT_EQ(One<StoreDeleted>(Do(DeleteJob{"base"}).records).job, "base");
}

TEST_F(CoordinatorTest, RefusesAJobThatIsThereOrWas) {
  Do(SubmitJob{"j", Options()});
  EXPECT_EQ(Answered<Refuse>(SubmitJob{"j", Options()}).reason, "JOB_EXISTS");
  Do(CancelJob{"j"});
  EXPECT_EQ(Answered<Refuse>(SubmitJob{"j", Options()}).reason, "JOB_EXISTS");
}

TEST_F(CoordinatorTest, RefusesMorePoolsThanItsMost) {
  for (const char* pool : {"a", "b", "c"}) Do(JoinPool{pool, "1", 1});
  const Refuse refuse = Answered<Refuse>(JoinPool{"d", "1", 1});
  EXPECT_TRUE(absl::IsResourceExhausted(refuse.status));
  EXPECT_EQ(refuse.reason, "POOLS_FULL");
}

TEST_F(CoordinatorTest, AnotherIncarnationLearnsHowLongTheLeaseStillIs) {
  Do(JoinPool{"a", "1", 1});
  At(4);
  const Refuse refuse = Answered<Refuse>(JoinPool{"a", "2", 1});
  EXPECT_EQ(refuse.reason, "POOL_LIVE");
  EXPECT_EQ(refuse.retry_after, absl::Seconds(6));
}

TEST_F(CoordinatorTest, JudgeAndCheckReaderAskAndChangeNothing) {
  RunJob();
  const Coordinator& core = core_;
  EXPECT_FALSE(core.Judge({"j", "a", "1", 0, 1, RoundKind::kOuter}).has_value());
  EXPECT_TRUE(View().fragments[0].contributors.empty());
  EXPECT_EQ(core.Judge({"j", "a", "1", 0, 7, RoundKind::kOuter})->have, 0);
  EXPECT_EQ(core.Judge({"j", "a", "1", 0, 1, RoundKind::kFinal})->reason, "KIND_MISMATCH");
  EXPECT_EQ(core.Judge({"j", "a", "1", 3, 1, RoundKind::kOuter})->reason, "FRAGMENT_UNKNOWN");
  EXPECT_EQ(core.Judge({"j", "a", "2", 0, 1, RoundKind::kOuter})->reason, "POOL_LOST");
  EXPECT_EQ(core.Judge({"x", "a", "1", 0, 1, RoundKind::kOuter})->reason, "JOB_UNKNOWN");
  EXPECT_FALSE(core.CheckReader("j", "a", "1").has_value());
  EXPECT_EQ(core.CheckReader("j", "b", "1")->reason, "NOT_ASSIGNED");
  EXPECT_EQ(core.CheckReader("x", "a", "1")->reason, "JOB_UNKNOWN");
}

TEST_F(CoordinatorTest, ARankOfAnUnknownJobIsRefused) {
  RunJob();
  EXPECT_EQ(Answered<Refuse>(RankReady{"x", "a", "1", 0}).reason, "JOB_UNKNOWN");
}

TEST_F(CoordinatorTest, AReaderNeedsAPlaceButNoLeaseAndBothWhenTheJobHasEnded) {
  RunJob();
  At(11);
  Do(Tick{});
  EXPECT_FALSE(core_.CheckReader("j", "a", "1").has_value());
  EXPECT_EQ(core_.Judge({"j", "a", "1", 0, 1, RoundKind::kOuter})->reason, "POOL_UNKNOWN");
  Do(CancelJob{"j"});
  EXPECT_EQ(core_.CheckReader("j", "a", "1")->reason, "POOL_UNKNOWN");
  Do(JoinPool{"a", "1", 1});
  EXPECT_FALSE(core_.CheckReader("j", "a", "1").has_value());
  EXPECT_EQ(core_.CheckReader("j", "a", "2")->reason, "POOL_REPLACED");
  Do(JoinPool{"b", "1", 1});
  EXPECT_EQ(core_.CheckReader("j", "b", "1")->reason, "NOT_ASSIGNED");
}

TEST_F(CoordinatorTest, AJobRefusesStreamsWhileItsStoreIsBeingOpened) {
  Do(SubmitJob{"j", Options()});
  Do(JoinPool{"a", "1", 1});
  EXPECT_EQ(One<OpenStore>(Do(RankReady{"j", "a", "1", 0}).works).create, true);
  EXPECT_EQ(core_.Judge({"j", "a", "1", 0, 0, RoundKind::kSeed})->reason, "STORE_OPENING");
  EXPECT_EQ(core_.CheckReader("j", "a", "1")->reason, "STORE_OPENING");
  EXPECT_EQ(View().waiting->what, "the coordinator to open the job's store");
}

TEST_F(CoordinatorTest, AContributionThatIsRepeatedCountsOnce) {
  RunJob();
  EXPECT_EQ(One<ApplyRound>(Complete(1).works).contributors.size(), 1u);
  EXPECT_TRUE(Nothing(Complete(1)));
}

// Ids are for programs. People, who read these words in answers and logs, gave the job a name.
TEST_F(CoordinatorTest, RefusalsNameTheJobAsItsUserDoes) {
  const auto message = [](const std::optional<Refuse>& refusal) {
    return refusal.has_value() ? std::string(refusal->status.message()) : "accepted";
  };
  const auto answer = [&](const Event& event) { return message(Answered<Refuse>(event)); };
  Do(SubmitJob{"j", Options("train")});
  Do(JoinPool{"a", "1", 1});
  Do(RankReady{"j", "a", "1", 0});
  EXPECT_EQ(answer(AskCheckpoint{"j"}), "the store of job train is being opened");
  EXPECT_EQ(message(core_.CheckReader("j", "b", "1")), "pool b is not assigned to job train");
  Do(StoreOpened{"j", {{}}});
  Complete(0, RoundKind::kSeed);
  Do(RoundApplied{"j", {0, 0}});
  EXPECT_EQ(message(core_.Judge({"j", "b", "1", 0, 1, RoundKind::kOuter})),
            "pool b has no place in job train any more");
  Do(JoinPool{"b", "1", 1});
  Do(RankReady{"j", "b", "1", 0});
  At(9);
  Do(Heartbeat{"b", "1", "j", 0});
  At(11);
  Do(Tick{});
  Do(ContributionComplete{{"j", "b", "1", {0, 1, RoundKind::kOuter}}});
  Do(RoundApplied{"j", {0, 1}});
  Do(JoinPool{"a", "2", 1});
  EXPECT_EQ(answer(RankReady{"j", "a", "1", 0}), "another worker already holds the name a");
  EXPECT_EQ(message(core_.CheckReader("j", "a", "1")), "job train continued without pool a");
  Do(CancelJob{"j"});
  EXPECT_EQ(answer(PauseJob{"j"}), "job train has ended: CANCELLED");
  EXPECT_EQ(message(core_.CheckReader("j", "c", "1")), "pool c is not assigned to job train");
  Do(SubmitJob{"k", Options("broken")});
  Do(StoreFailed{"k", {.message = "bad bytes"}});
  EXPECT_EQ(answer(PauseJob{"k"}), "job broken is quarantined: bad bytes");
  // Of a job that it does not know, it knows no name.
  EXPECT_EQ(answer(PauseJob{"x"}), "no job x");
}

TEST_F(CoordinatorTest, APoolThatComesTooLateIsToldOfTheJobByItsName) {
  RunJob(Options("train"));
  Do(JoinPool{"b", "1", 1});
  for (int64_t version : {1, 2, 3}) {
    Complete(version, version == 3 ? RoundKind::kFinal : RoundKind::kOuter);
    Do(RoundApplied{"j", {0, version}});
  }
  const Refuse late = Answered<Refuse>(RankReady{"j", "b", "1", 0});
  EXPECT_EQ(late.status.message(), "job train is about to end");
}

TEST_F(CoordinatorTest, ALossThatIsNoNumberIsNotStored) {
  RunJob();
  Heartbeat heartbeat{"a", "1", "j", 8};
  heartbeat.evaluations = {{.step = 4, .version = 1, .loss = 2.5, .tokens = 10},
                           {.step = 8, .version = 2, .loss = std::nan("")}};
  const StoreEvaluation stored = One<StoreEvaluation>(Do(heartbeat).records);
  EXPECT_EQ(stored.evaluation.step, 4);
  EXPECT_EQ(stored.evaluation.tokens, 10);
}

TEST_F(CoordinatorTest, ReportsAboutAnotherJobAreIgnored) {
  RunJob();
  Heartbeat heartbeat{"a", "1", "x", 99};
  heartbeat.fault = JobFault{.code = "NOT_FOUND", .message = "no data"};
  const Decision decision = Do(heartbeat);
  EXPECT_TRUE(decision.notices.empty() && decision.records.empty());
  EXPECT_EQ(View().participants[0].inner_step, 0);
}

// --- Deadlines.

TEST_F(CoordinatorTest, APlaceOfAPoolThatIsAwayEndsAtItsTime) {
  RunJob();
  Do(JoinPool{"b", "1", 1});
  const Decision left = Do(LeavePool{"b", "1", absl::Minutes(10)});
  EXPECT_EQ(One<StorePlace>(left.records).place.return_until, now_ + absl::Minutes(10));
  Do(LeavePool{"a", "1", absl::Hours(9 * 24)});
  At(599);
  EXPECT_TRUE(Nothing(Do(Tick{})));
  At(600);
  const Decision gone = Do(Tick{});
  EXPECT_TRUE(One<StorePlace>(gone.records).place.gone);
  EXPECT_EQ(One<ReleasePool>(gone.notices).pool, "b");
  At(7 * 24 * 3600);
  EXPECT_EQ(One<ReleasePool>(Do(Tick{}).notices).pool, "a") << "no place is kept longer";
}

TEST_F(CoordinatorTest, WorksThatAFullDiskHeldUpBeginAgainAfterASecond) {
  RunJob();
  ASSERT_EQ(All<ApplyRound>(Complete(1).works).size(), 1u);
  EXPECT_TRUE(Do(ApplyFailed{"j", {0, 1}, {true, {.message = "disk full"}}}).works.empty());
  EXPECT_EQ(View().waiting->what, "the coordinator: disk full");
  At(1);
  const ApplyRound again = One<ApplyRound>(Do(Tick{}).works);
  EXPECT_EQ(again.round.version, 1);
  ASSERT_EQ(again.contributors.size(), 1u);
  EXPECT_EQ(again.contributors[0].incarnation, "1");
  EXPECT_EQ(again.evaluator, "a");
  EXPECT_TRUE(Do(Tick{}).works.empty());
  Do(RoundApplied{"j", {0, 1}});
  EXPECT_FALSE(View().waiting.has_value());
}

TEST_F(CoordinatorTest, TheFinalCheckpointIsTriedUntilItIsWrittenAndOthersAreNot) {
  FinishJob();
  EXPECT_TRUE(Nothing(Do(CheckpointFailed{"j", false, {true, {.message = "disk full"}}})));
  EXPECT_NE(View().waiting->what, "the coordinator: disk full");
  At(1);
  Do(Tick{});
  Heartbeat finished{"a", "1", "j", 8};
  finished.finished = true;
  finished.evaluations = {{.step = 8, .version = 3, .loss = 1, .final = true}};
  EXPECT_TRUE(One<WriteCheckpoint>(Do(finished).works).final);
  Do(CheckpointFailed{"j", true, {true, {.message = "disk full"}}});
  At(2);
  EXPECT_EQ(One<WriteCheckpoint>(Do(Tick{}).works).step, 8);
  // A second failure in a row: it may have written much, so the next try is later.
  Do(CheckpointFailed{"j", true, {true, {.message = "disk full"}}});
  At(3);
  EXPECT_TRUE(Do(Tick{}).works.empty());
  At(4);
  EXPECT_EQ(One<WriteCheckpoint>(Do(Tick{}).works).step, 8);
  const Decision end = Do(CheckpointWritten{"j", true});
  EXPECT_EQ(One<EndJob>(end.notices).state, JobState::kCompleted);
  EXPECT_EQ(One<StoreJobState>(end.records).state, JobState::kCompleted);
}

TEST_F(CoordinatorTest, AFinishingJobWaitsForEachPoolsLastMergeUntilItsDeadline) {
  FinishJob();
  Heartbeat evaluated{"a", "1", "j", 8};
  evaluated.evaluations = {{.step = 8, .version = 3, .loss = 1, .final = true}};
  EXPECT_TRUE(Do(evaluated).works.empty());
  EXPECT_EQ(View().waiting->what, "the pools to merge and evaluate the last commits");
  EXPECT_EQ(View().waiting->until, now_ + absl::Seconds(60));
  for (int i = 1; i < 7; ++i) {
    At(9 * i);
    EXPECT_TRUE(Do(Heartbeat{"a", "1", "j", 8}).works.empty());
  }
  At(60);
  EXPECT_TRUE(One<WriteCheckpoint>(Do(Tick{}).works).final);
}

TEST_F(CoordinatorTest, AfterTheFirstEvaluationAPoolThatHasMergedIsAwaitedForSecondsOnly) {
  FinishJob();
  Heartbeat merged{"a", "1", "j", 8};
  merged.merged = true;
  EXPECT_TRUE(Do(merged).works.empty());
  EXPECT_EQ(View().waiting->until, now_ + absl::Seconds(60)) << "nobody has evaluated";
  At(8);
  merged.evaluations = {{.step = 8, .version = 3, .loss = 1, .final = true}};
  EXPECT_TRUE(Do(merged).works.empty());
  EXPECT_EQ(View().waiting->until, now_ + absl::Seconds(5));
  At(12);
  EXPECT_TRUE(Do(Heartbeat{"a", "1", "j", 8}).works.empty()) << "it has merged for good";
  At(13);
  EXPECT_TRUE(One<WriteCheckpoint>(Do(Tick{}).works).final);
}

// --- Jobs that cannot continue.

TEST_F(CoordinatorTest, AFailedStoreQuarantinesItsJobAndThatIsNotStored) {
  RunJob();
  Complete(1);
  const Decision decision = Do(ApplyFailed{"j", {0, 1}, {false, {.message = "bad bytes"}}});
  EXPECT_EQ(One<EndJob>(decision.notices).state, JobState::kQuarantined);
  EXPECT_TRUE(All<StoreJobState>(decision.records).empty());
  EXPECT_EQ(View().fault->message, "bad bytes");
  EXPECT_EQ(core_.Judge({"j", "a", "1", 0, 1, RoundKind::kOuter})->reason, "JOB_QUARANTINED");
  EXPECT_FALSE(core_.pools()[0].assignment.has_value());
  // Works that were in progress end without effect.
  EXPECT_TRUE(Nothing(Do(RoundApplied{"j", {0, 1}})));
  EXPECT_TRUE(Nothing(Do(StoreFailed{"j", {.message = "told twice"}})));
  EXPECT_EQ(View().fault->message, "bad bytes");
}

TEST_F(CoordinatorTest, AJobFailsIfWhatItBeginsWithCannotBeUsed) {
  BeginJob();
  const Decision decision =
      Do(ApplyFailed{"j", {0, 0}, {false, {.message = "not finite", .field = "init"}, true}});
  EXPECT_EQ(One<StoreJobState>(decision.records).state, JobState::kFailed);
  EXPECT_EQ(One<EndJob>(decision.notices).fault->message, "not finite");
  EXPECT_FALSE(core_.pools()[0].assignment.has_value());
  // That of another fragment.
  EXPECT_TRUE(Nothing(Do(ApplyFailed{"j", {0, 0}, {false, {.message = "as well"}, true}})));
}

TEST_F(CoordinatorTest, AQuarantinedJobBeginsNothingAgain) {
  RunJob();
  Complete(1);
  Do(StoreFailed{"j", {.message = "bad bytes"}});
  Do(ApplyFailed{"j", {0, 1}, {true, {.message = "too many tasks wait"}}});
  Do(CheckpointFailed{"j", true, {true, {.message = "too many tasks wait"}}});
  At(100);
  EXPECT_TRUE(Do(Tick{}).works.empty());
}

TEST_F(CoordinatorTest, AJobWhoseRecordsCannotBeUsedAnswersAndCanBeCancelled) {
  core_ = Coordinator({},
                      {.jobs = {{.job = "j",
                                 .options = {.name = "j"},
                                 .state = JobState::kRunning,
                                 .unusable = JobFault{.message = "spec"}}}},
                      now_);
  Do(JoinPool{"a", "1", 1});
  EXPECT_EQ(Answered<Refuse>(RankReady{"j", "a", "1", 0}).reason, "JOB_QUARANTINED");
  EXPECT_EQ(Answered<Refuse>(ContributionComplete{{"j", "a", "1", {0, 1}}}).reason,
            "JOB_QUARANTINED");
  EXPECT_EQ(core_.CheckReader("j", "a", "1")->reason, "JOB_QUARANTINED");
  EXPECT_FALSE(core_.place("j", "a").has_value());
  EXPECT_EQ(View().state, JobState::kQuarantined);
  EXPECT_FALSE(View().waiting.has_value());
  EXPECT_TRUE(Nothing(Do(StoreOpened{"j", {}})));
  EXPECT_TRUE(Nothing(Do(OpenFailed{"j", {}})));
  EXPECT_TRUE(Nothing(Do(ApplyFailed{"j", {0, 1}, {true, {}}})));
  const Decision cancelled = Do(CancelJob{"j", "no use"});
  EXPECT_EQ(One<StoreJobState>(cancelled.records).state, JobState::kCancelled);
  EXPECT_EQ(One<EndJob>(cancelled.notices).fault->message, "no use");
}

// --- Places.

TEST_F(CoordinatorTest, AReturningPoolFindsItsPlaceGivenAwayWhenTheJobIsFull) {
  JobOptions options = Options();
  options.pools_max = 1;
  Do(SubmitJob{"j", options});
  Do(JoinPool{"a", "1", 1});
  At(11);
  Do(JoinPool{"b", "1", 1});
  EXPECT_EQ(Answered<Refuse>(JoinPool{"a", "1", 1}).reason, "POOL_LOST");
  EXPECT_FALSE(Answered<GrantLease>(JoinPool{"a", "2", 1}).assignment.has_value());
}

TEST_F(CoordinatorTest, ARunningJobKeepsItsRemainingPools) {
  Do(SubmitJob{"j", Options("j", 2)});
  Do(JoinPool{"b", "1", 1});
  Do(JoinPool{"a", "1", 1});
  for (const char* pool : {"a", "b"}) Do(RankReady{"j", pool, "1", 0});
  Do(StoreOpened{"j", {{}}});
  Do(LeavePool{"b", "1"});
  EXPECT_TRUE(core_.place("j", "a")->live);
}

TEST_F(CoordinatorTest, TheOnlyPoolOfAJobDrainsAndTheJobWaitsForTheNext) {
  RunJob();
  Heartbeat draining{"a", "1", "j", 2};
  draining.draining = true;
  EXPECT_TRUE(Do(draining).works.empty()) << "round 1 is pushed at step 3";
  EXPECT_EQ(core_.pools()[0].state, PoolState::kDraining);
  EXPECT_EQ(View().participants[0].last_step, 2);
  EXPECT_TRUE(Do(LeavePool{"a", "1", absl::Minutes(1)}).works.empty());
  EXPECT_EQ(core_.pools()[0].state, PoolState::kAway);
  EXPECT_EQ(Answered<GrantLease>(JoinPool{"a", "2", 1}).assignment->ordinal, 0);
  EXPECT_EQ(Answered<AdmitRank>(RankReady{"j", "a", "2", 0}).start_step, 2);
  EXPECT_EQ(View().fragments[0].version, 0);
}

TEST_F(CoordinatorTest, ShowsPoolsWithTheirPlaceAndProgress) {
  RunJob();
  Do(JoinPool{"b", "1", 3});
  Do(Heartbeat{"a", "1", "j", 5});
  const auto pools = core_.pools();
  ASSERT_EQ(pools.size(), 2u);
  EXPECT_EQ(pools[0].state, PoolState::kParticipating);
  EXPECT_EQ(pools[0].assignment->job, "j");
  EXPECT_EQ(pools[1].state, PoolState::kAssigned);
  EXPECT_EQ(pools[1].assignment->ordinal, 1);
  EXPECT_EQ(pools[1].ranks, 3);
  EXPECT_EQ(View().participants[0].inner_step, 5);
  EXPECT_EQ(core_.place("j", "a")->inner_step, 5);
  EXPECT_FALSE(core_.place("j", "c").has_value());
  EXPECT_TRUE(core_.job("j").has_value());
  EXPECT_FALSE(core_.job("x").has_value());
}

TEST_F(CoordinatorTest, ShowsPoolsInPagesAndCountsThem) {
  RunJob();
  for (const char* pool : {"b", "d"}) Do(JoinPool{pool, "1", 1});
  // A node of a pool of two, whose other node is missing.
  Do(JoinPool{.pool = "c", .incarnation = "1", .nodes = 2});
  // Away: it drained and will be back.
  Do(Heartbeat{.pool = "a", .incarnation = "1", .job = "j", .inner_step = 2, .draining = true});
  Do(LeavePool{"a", "1", absl::Minutes(1)});
  const auto names = [&](std::string_view after, size_t count) {
    std::vector<std::string> names;
    for (const PoolView& view : core_.pools(after, count)) names.push_back(view.pool);
    return names;
  };
  using Names = std::vector<std::string>;
  EXPECT_EQ(names("", 100), (Names{"a", "b", "c", "d"}));
  EXPECT_EQ(names("", 2), (Names{"a", "b"}));
  EXPECT_EQ(names("b", 2), (Names{"c", "d"}));
  EXPECT_EQ(names("bb", 100), (Names{"c", "d"}));
  EXPECT_EQ(names("d", 100), Names{});
  const PoolCounts counts = core_.CountPools();
  std::map<PoolState, int> shown;
  int live = 0;
  for (const PoolView& view : core_.pools()) {
    ++shown[view.state];
    live += view.lease_end > now_;
  }
  EXPECT_EQ(counts.by_state, shown);
  EXPECT_EQ(counts.live, live);
}

// --- Recovery.

TEST_F(CoordinatorTest, EndedJobsAreRetiredAndStillAnswerHowTheyEnded) {
  RunJob();
  Do(CancelJob{"j"});
  EXPECT_FALSE(core_.job("j").has_value());
  EXPECT_EQ(Answered<Refuse>(RankReady{"j", "a", "1", 0}).reason, "JOB_ENDED");
  EXPECT_TRUE(Nothing(Do(CancelJob{"j"}))) << "repeated";
  EXPECT_TRUE(Nothing(Do(RoundApplied{"j", {0, 1}})));
}

TEST_F(CoordinatorTest, ARecoveredJobOpensItsStoreAndItsPoolsHaveALeaseOfGrace) {
  core_ = Coordinator(
      {},
      {.jobs = {Recovered("j", JobState::kRunning,
                          {{.pool = "a", .incarnation = "1", .start_step = 0}}, Options())}},
      now_);
  // Streams of ranks may come before the first step. The fragments are not known yet.
  EXPECT_EQ(core_.Judge({"j", "a", "1", 0, 2, RoundKind::kOuter})->reason, "STORE_OPENING");
  EXPECT_EQ(core_.CheckReader("j", "a", "1")->reason, "STORE_OPENING");
  const Decision decision = Do(Tick{});
  EXPECT_FALSE(One<OpenStore>(decision.works).create);
  EXPECT_TRUE(decision.records.empty());
  Do(StoreOpened{
      "j",
      {{.version = 1,
        .contributors = {{.pool = "a", .incarnation = "1"}, {.pool = "z", .incarnation = "1"}}}}});
  EXPECT_EQ(View().fragments[0].version, 1);
  EXPECT_EQ(core_.Judge({"j", "a", "1", 0, 2, RoundKind::kOuter}), std::nullopt) << "repeated";
  At(9);
  Do(Tick{});
  EXPECT_TRUE(core_.place("j", "a")->live);
  At(10);
  Do(Tick{});
  EXPECT_FALSE(core_.place("j", "a")->live);
}

TEST_F(CoordinatorTest, ARecoveredFinalEvaluationIsNotAwaitedAgain) {
  RecoveredJob job =
      Recovered("j", JobState::kFinishing,
                {{.pool = "a", .incarnation = "1", .start_step = 0, .gone = true}}, Options());
  job.final_evaluation = true;
  core_ = Coordinator({}, {.jobs = {job}}, now_);
  Do(Tick{});
  const Decision opened = Do(StoreOpened{"j", {{.version = 3, .evaluator = "a"}}});
  EXPECT_TRUE(One<WriteCheckpoint>(opened.works).final);
}

TEST_F(CoordinatorTest, APoolWithPlacesInTwoJobsKeepsTheFirst) {
  const std::vector<RecoveredPlace> place = {{.pool = "a", .incarnation = "1", .start_step = 0}};
  core_ = Coordinator({},
                      {.jobs = {Recovered("first", JobState::kRunning, place, Options()),
                                Recovered("second", JobState::kRunning, place, Options())}},
                      now_);
  EXPECT_TRUE(core_.place("first", "a")->live);
  EXPECT_FALSE(core_.place("second", "a")->live);
  const StorePlace given_up = One<StorePlace>(Do(Tick{}).records);
  EXPECT_EQ(given_up.job, "second");
  EXPECT_TRUE(given_up.place.gone);
}

TEST_F(CoordinatorTest, ARecoveredPoolThatIsAwayOrGoneHoldsNoLease) {
  core_ = Coordinator(
      {},
      {.jobs = {Recovered(
           "j", JobState::kRunning,
           {{.pool = "a", .incarnation = "1", .start_step = 0, .gone = true, .missed = true},
            {.pool = "b",
             .incarnation = "1",
             .ordinal = 1,
             .start_step = 0,
             .return_until = now_ + absl::Seconds(30)}},
           Options())}},
      now_);
  Do(Tick{});
  EXPECT_EQ(core_.CountPools().live, 0);
  EXPECT_EQ(Answered<Refuse>(JoinPool{"a", "1", 1}).reason, "POOL_LOST");
  Do(StoreOpened{"j", {{.version = 0}}});
  EXPECT_EQ(Answered<GrantLease>(JoinPool{"b", "2", 1}).assignment->ordinal, 1);
  EXPECT_EQ(Answered<GrantLease>(JoinPool{"a", "2", 1}).assignment->ordinal, 0);
}

TEST_F(CoordinatorTest, APoolThatGaveUpAPlaceBeforeARestartContinuesInItsNextJob) {
  RecoveredPlace place{.pool = "a", .incarnation = "1"};
  RecoveredPlace given_up = place;
  given_up.gone = true;
  place.start_step = 0;
  core_ = Coordinator({},
                      {.jobs = {Recovered("first", JobState::kPending, {given_up}, Options("", 2)),
                                Recovered("next", JobState::kRunning, {place}, Options())}},
                      now_);
  EXPECT_EQ(Answered<GrantLease>(JoinPool{"a", "1", 1}).assignment->job, "next");
  At(11);
  Do(Tick{});
  EXPECT_FALSE(core_.place("next", "a")->live);
  EXPECT_EQ(Answered<GrantLease>(JoinPool{"a", "1", 1}).assignment->job, "next");
}

TEST_F(CoordinatorTest, ARecoveredPoolThatGaveUpItsPlaceIsNotExpectedToReportTheFault) {
  core_ = Coordinator(
      {},
      {.jobs = {Recovered("j", JobState::kRunning,
                          {{.pool = "a", .incarnation = "1", .start_step = 0, .gone = true}},
                          Options())}},
      now_);
  Do(Tick{});
  Do(StoreOpened{"j", {{.version = 0}}});
  Do(JoinPool{"b", "1", 1});
  Heartbeat heartbeat{"b", "1", "j"};
  heartbeat.fault = JobFault{"NOT_FOUND", "no data", "data.path"};
  Do(heartbeat);
  At(5);
  EXPECT_EQ(Answered<GrantLease>(Heartbeat{"b", "1"}).assignment->job, "j");
  EXPECT_EQ(One<EndJob>(Do(heartbeat).notices).state, JobState::kFailed);
}

TEST_F(CoordinatorTest, EndsOfUnknownWorksChangeNothing) {
  RunJob();
  EXPECT_TRUE(Nothing(Do(StoreOpened{"x", {{}}})));
  EXPECT_TRUE(Nothing(Do(StoreOpened{"j", {{.version = 2}}}))) << "it is open";
  EXPECT_TRUE(Nothing(Do(OpenFailed{"j", {}})));
  EXPECT_TRUE(Nothing(Do(StoreFailed{"x", {}})));
  EXPECT_TRUE(Nothing(Do(CheckpointWritten{"j", false})));
  EXPECT_TRUE(Nothing(Do(CheckpointWritten{"x", true})));
  EXPECT_EQ(View().fragments[0].version, 0);
}

// A join that changes nothing causes no placement. These do.
TEST_F(CoordinatorTest, APoolThatJoinsAgainAndCanDoMoreGetsWork) {
  JobOptions options = Options();
  options.needs = {"x"};
  Do(SubmitJob{"j", options});
  JoinPool join{"a", "1", 2};
  EXPECT_FALSE(Answered<GrantLease>(join).assignment.has_value());
  EXPECT_FALSE(Answered<GrantLease>(join).assignment.has_value());
  join.capabilities = {"x"};
  EXPECT_TRUE(Answered<GrantLease>(join).assignment.has_value());
}

TEST_F(CoordinatorTest, APoolThatWasDrainingAndJoinsAgainGetsWork) {
  Do(JoinPool{"a", "1", 2});
  Do(Heartbeat{.pool = "a", .incarnation = "1", .draining = true});
  Do(SubmitJob{"j", Options()});
  EXPECT_FALSE(
      Answered<GrantLease>(Heartbeat{.pool = "a", .incarnation = "1"}).assignment.has_value());
  EXPECT_TRUE(Answered<GrantLease>(JoinPool{"a", "1", 2}).assignment.has_value());
}

}  // namespace
}  // namespace longhaul::coordinator

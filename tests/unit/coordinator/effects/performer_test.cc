// In which order decisions take effect; submissions, counters, what jobs leave.
#include "common/rpc/status_details.h"
#include "coordinator/store/checkpoint.h"
#include "coordinator/store/fatal.h"
#include "coordinator/store/job_folder.h"
#include "gmock/gmock.h"
#include "tests/unit/coordinator/effects/performer_testing.h"

namespace longhaul::coordinator {
namespace {

// --- Order.

TEST_F(PerformerTest, RecordsThenTheAnswerThenNoticesThenWorks) {
  const std::string id = RunPair();
  // Without b, round 1 has all contributions that it needs.
  Step(Failing(id, "b"));
  EXPECT_EQ(Taken(),
            (Trace{"store id1 place of b gone", "answer lease b", "release b", "begin apply"}));
}

TEST_F(PerformerTest, AJobReachesItsFirstCommits) {
  const std::string id = Submit("job");
  EXPECT_EQ(Taken(), Trace{"store new job"});
  Join("a");
  EXPECT_EQ(Taken(), (Trace{"store id1 place of a", "answer lease a"}));
  Step(RankReady{id, "a", "1", 0});
  EXPECT_EQ(Taken(), (Trace{"store id1 place of a ready, id1 SEEDING", "answer admit a",
                            "begin background"}));
  Crank();
  EXPECT_EQ(Taken(), Trace{"ask a for the seed"});
  Push(id, "a", 0, RoundKind::kSeed);
  EXPECT_EQ(Taken(), (Trace{"answer nothing", "begin apply"}));
  apply_.RunOne();
  EXPECT_EQ(Taken(), Trace{"begin background"}) << "durable, and a snapshot is looked at; not told";
  owner_.RunOne();
  EXPECT_EQ(Taken(), (Trace{"store id1 RUNNING", "publish id1 version 0"}));
  EXPECT_EQ(performer_->View(id)->fragments[0].version, 0);
  EXPECT_EQ(performer_->Find(id)->record.started, now_);
  EXPECT_EQ(performer_->jobs_by_state().at(JobState::kRunning), 1);
  EXPECT_EQ(performer_->jobs_by_state().at(JobState::kPending), 0);
  EXPECT_EQ(meta_->GetJob(id)->status, "status 3") << "the report that is kept is of that state";
}

TEST_F(PerformerTest, AJobThatBeginsWarnsOfNamesOfDataThatNoneOfItsPoolsHas) {
  for (const char* const name : {"aa", "b"}) {
    ResolvedJob job = Spec(absl::StrCat("job-", name), 1);
    job.spec.mutable_pools()->set_max(1);
    job.spec.mutable_data()->mutable_text()->set_path("text");
    job.spec.mutable_data()->add_pools()->set_pool(name);
    const std::string id = performer_->Submit(std::move(job), "")->job;
    const std::string pool = name == std::string("aa") ? "a" : "b";
    Join(pool);
    Step(RankReady{id, pool, "1", 0});
    std::vector<std::string> said;
    for (const v1::JobEvent& event : performer_->EventsAfter(id, 0))
      if (event.kind() == v1::SUBMIT_WARNING) said.push_back(event.message());
    if (pool == "b") {
      EXPECT_THAT(said, testing::IsEmpty());
    } else {
      EXPECT_THAT(said, testing::ElementsAre(testing::HasSubstr("no pool is named aa now")));
    }
  }
}

TEST_F(PerformerTest, TheStoreOfAPausedJobIsClosedUntilTheJobIsResumed) {
  const std::string id = RunPair();
  Push(id, "b", 1, RoundKind::kOuter);
  Crank();
  Taken();
  // Pools of an earlier version are released at once.
  Step(PauseJob{id, "token:ann", "night"});
  EXPECT_EQ(Taken(), (Trace{"store id1 pause 1, id1 place of a gone, id1 place of b gone",
                            "begin background", "answer nothing", "release a", "release b",
                            "begin background"}))
      << "its state is noted and its store closed in the background";
  EXPECT_EQ(performer_->Find(id)->state(), JobState::kPausing);
  const std::weak_ptr<SharedStore> open = performer_->Find(id)->fragments->store();
  Crank();
  EXPECT_EQ(Taken(), (Trace{"store id1 pause 2status 3", "begin background"}));
  EXPECT_EQ(performer_->Find(id)->state(), JobState::kPaused);
  EXPECT_EQ(performer_->Find(id)->fragments->store(), nullptr);
  EXPECT_TRUE(open.expired()) << "its memory is given back";
  const auto checkpoints = ListCheckpoints(disk_, JobFolder("data", id));
  ASSERT_EQ(checkpoints->size(), 1u);
  EXPECT_FALSE(checkpoints->at(0).last());
  EXPECT_EQ(performer_->Find(id)->progress.commit(0)->round.version, 1);
  performer_->SaveCounters();

  Taken();
  Restart();
  Crank();
  EXPECT_EQ(Taken(), Trace{}) << "nothing is opened";
  EXPECT_EQ(performer_->Find(id)->state(), JobState::kPaused);
  EXPECT_EQ(performer_->Find(id)->pause.by, "token:ann");
  EXPECT_EQ(performer_->Find(id)->pause.reason, "night");
  EXPECT_EQ(performer_->Find(id)->pause.report, "status 3");
  std::vector<std::string> messages;
  for (const v1::JobEvent& event : performer_->EventsAfter(id, 0))
    messages.push_back(event.message());
  EXPECT_THAT(messages, testing::IsSupersetOf({"is PAUSING, by token:ann: night", "is PAUSED"}));

  Step(ResumeJob{id, "token:bob"});
  EXPECT_EQ(Taken(), (Trace{"store id1 pause 3status 3", "begin background", "answer nothing",
                            "begin background"}));
  Crank();
  incarnation_ = "2";
  for (const char* pool : {"a", "b"}) Join(pool);
  for (const char* pool : {"a", "b"}) Step(RankReady{id, pool, incarnation_, 0});
  EXPECT_EQ(meta_->GetPause(id)->stage, PauseStage::kNone);
  for (const char* pool : {"a", "b"}) Push(id, pool, 2, RoundKind::kOuter);
  Crank();
  EXPECT_EQ(performer_->View(id)->fragments[0].version, 2);
}

TEST_F(PerformerTest, AStoreIsOpenedAgainWhenItsLastStreamsHaveEnded) {
  const std::string id = RunPair();
  std::shared_ptr<SharedStore> stream = performer_->Find(id)->fragments->store();
  Step(PauseJob{id});
  Crank();
  ASSERT_EQ(performer_->Find(id)->state(), JobState::kPaused);
  Step(ResumeJob{id});
  Crank();
  EXPECT_EQ(performer_->Find(id)->fragments->store(), nullptr);
  EXPECT_EQ(performer_->View(id)->waiting->what, "the coordinator to open the job's store");
  stream.reset();
  Crank();
  EXPECT_NE(performer_->Find(id)->fragments->store(), nullptr);
}

TEST_F(PerformerTest, ACancelledJobThatWasPausedHasItsLastCheckpoint) {
  const std::string id = RunPair();
  Push(id, "b", 1, RoundKind::kOuter);
  Crank();
  Step(PauseJob{id});
  Crank();
  Step(CancelJob{id});
  EXPECT_EQ(performer_->Find(id)->state(), JobState::kCancelled);
  Pass(absl::Seconds(61));
  Crank();
  const auto checkpoints = ListCheckpoints(disk_, JobFolder("data", id));
  ASSERT_EQ(checkpoints->size(), 1u);
  EXPECT_TRUE(checkpoints->at(0).last());
  EXPECT_FALSE(disk_.List(LogFolder(JobFolder("data", id))).ok());
}

TEST_F(PerformerTest, AFullDiskRefusesAPause) {
  const std::string id = RunPair();
  records_.Refuse(Full());
  Step(Failing(id, "b"));
  Step(PauseJob{id});
  EXPECT_EQ(std::get<Refuse>(*answer_).reason, "DISK_FULL");
  EXPECT_EQ(performer_->Find(id)->state(), JobState::kRunning);
}

TEST_F(PerformerTest, AStepTakenInAPublishersCallWaitsForItsTurn) {
  const std::string id = RunPair();
  publisher_.on_release = [this, id] {
    Step(CancelJob{id, "enough"});
    trace_.push_back("the call returns");
  };
  Step(Failing(id, "b"));
  EXPECT_EQ(Taken(),
            (Trace{"store id1 place of b gone", "answer lease b", "release b", "the call returns",
                   "begin apply", "store id1 CANCELLED", "begin background", "answer nothing",
                   "begin background", "end id1 CANCELLED"}));
}

TEST_F(PerformerTest, AnEndedJobIsForgottenWhenItsLastWorksHaveEnded) {
  const std::string id = RunPair();
  Step(Failing(id, "b"));
  Step(CancelJob{id});
  Pass(absl::Seconds(61));
  Taken();
  while (apply_.RunOne() || owner_.RunOne()) {
  }
  EXPECT_EQ(Taken(), Trace{"begin background"}) << "a snapshot of the commit, which has the store";
  EXPECT_NE(performer_->Find(id), nullptr);
  Crank();
  EXPECT_EQ(Taken(), (Trace{"begin background", "store id1 is cleaned up"})) << "the log's removal";
  EXPECT_EQ(performer_->Find(id), nullptr);
}

TEST_F(PerformerTest, BeginsAWorkAgainThatAFullQueueRefused) {
  const std::string id = Submit("job");
  Join("a");
  background_.refuses = true;
  Step(RankReady{id, "a", "1", 0});
  Crank();
  EXPECT_NE(performer_->View(id)->waiting->what.find("too many tasks wait"), std::string::npos);
  background_.refuses = false;
  Taken();
  Pass(absl::Seconds(1));
  Crank();
  const Trace taken = Taken();
  EXPECT_EQ(std::count(taken.begin(), taken.end(), "ask a for the seed"), 1);
}

TEST_F(PerformerTest, AStoreThatCannotBeOpenedQuarantinesItsJobAlone) {
  const std::string id = RunPair();
  const std::string manifest = JobFolder("data", id) + "/manifest";
  ASSERT_TRUE((*disk_.Open(manifest))->WriteAt(20, "damage").ok());
  Restart();
  Crank();
  EXPECT_EQ(performer_->View(id)->state, JobState::kQuarantined);
  EXPECT_EQ(performer_->Find(id)->state(), JobState::kQuarantined);
  EXPECT_EQ(performer_->Find(id)->record.state, JobState::kRunning)
      << "it is not stored: the next start tries again";
  EXPECT_TRUE(performer_->health().ok());
  Submit("another");
  EXPECT_EQ(fatal_, 0);
}

// --- Submit.

TEST_F(PerformerTest, ARepeatedSubmissionFindsItsJob) {
  const absl::StatusOr<Submitted> first = performer_->Submit(Spec("job"), "token");
  ASSERT_TRUE(first.ok());
  EXPECT_TRUE(first->created);
  for (const char* token : {"token", "", "another"}) {
    const absl::StatusOr<Submitted> again = performer_->Submit(Spec("job"), token);
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_EQ(again->job, first->job);
    EXPECT_FALSE(again->created);
  }
  EXPECT_EQ(performer_->All().size(), 1u);
}

TEST_F(PerformerTest, ATokenThatCameWithAnotherSpecIsTaken) {
  const std::string id = performer_->Submit(Spec("job"), "token")->job;
  const absl::Status taken = performer_->Submit(Spec("other"), "token").status();
  EXPECT_TRUE(absl::IsAlreadyExists(taken));
  EXPECT_EQ(ErrorInfoOf(taken), (ErrorDetail{"TOKEN_TAKEN", {{"job", id}}}));
  EXPECT_TRUE(absl::IsNotFound(meta_->GetJob("other").status()));
}

// An earlier version of the program did not know every default.
TEST_F(PerformerTest, ASpecThatWasStoredWithFewerDefaultsIsTheSame) {
  const std::string id = Submit("job");
  JobRecord stored = *meta_->GetJob("job");
  v1::JobSpec earlier;
  ASSERT_TRUE(earlier.ParseFromString(stored.spec));
  earlier.clear_evaluation();
  stored.id = "0-earlier";
  stored.name = "earlier";
  earlier.set_name("earlier");
  stored.spec = earlier.SerializeAsString();
  stored.order = 0;
  ASSERT_TRUE(meta_->Commit({NewJob{stored}}).ok());
  EXPECT_EQ(performer_->Submit(Spec("earlier"), "")->job, "0-earlier");
}

TEST_F(PerformerTest, ANameWithAnotherSpecOrOfAJobThatDidNotCompleteIsTaken) {
  const std::string id = Submit("job");
  const ErrorDetail detail{"NAME_TAKEN", {{"job", id}}};
  EXPECT_EQ(ErrorInfoOf(performer_->Submit(Spec("job", 1, 61), "").status()), detail);
  Step(CancelJob{id});
  const absl::Status cancelled = performer_->Submit(Spec("job"), "").status();
  EXPECT_EQ(ErrorInfoOf(cancelled), detail);
  EXPECT_NE(cancelled.message().find("CANCELLED"), std::string::npos);
  Pass(absl::Seconds(61));
  EXPECT_EQ(ErrorInfoOf(performer_->Submit(Spec("job"), "").status()), detail)
      << "forgotten, stored";
}

// --- Counters, the end of jobs.

// Else the checkpoint of that step, with which another job may have begun, became another one.
TEST_F(PerformerTest, WhatACancelledJobLeavesHasNoRoundThatWasStillApplied) {
  const std::string id = RunPair();
  Push(id, "b", 1, RoundKind::kOuter);
  Crank();
  for (const char* pool : {"a", "b"}) Push(id, pool, 2, RoundKind::kOuter);
  Step(CancelJob{id});
  ASSERT_TRUE(apply_.RunOne());
  Crank();
  const auto left = ListCheckpoints(disk_, JobFolder("data", id));
  ASSERT_TRUE(left.ok()) << left.status();
  ASSERT_EQ(left->size(), 1u);
  EXPECT_EQ(left->front().fragments(0).version(), 1);
  EXPECT_EQ(*performer_->Find(id)->fragments->store()->operator*().Version(0), 2);
}

TEST_F(PerformerTest, AJobDoesNotBeginWithACheckpointOfADeletedOne) {
  const std::string base = Submit("base");
  ASSERT_TRUE(CreateDirs(disk_, CheckpointPath(JobFolder("data", base), 6)).ok());
  Step(CancelJob{base, ""});
  ResolvedJob next = Spec("next");
  next.spec.mutable_init()->set_checkpoint(base + "@6");
  ASSERT_TRUE(performer_->Submit(next, "").ok());
  Step(CancelJob{"id2", ""});
  performer_->Delete(
      base, [](absl::StatusOr<Deleted> deleted) { EXPECT_TRUE(deleted.ok()) << deleted.status(); });
  // Its files are removed later.
  next.spec.set_name("later");
  const absl::Status refused = performer_->Submit(next, "").status();
  EXPECT_TRUE(absl::IsFailedPrecondition(refused)) << refused;
  EXPECT_TRUE(absl::IsNotFound(meta_->GetJob("later").status()));
}

TEST_F(PerformerTest, CountersAreStoredTogetherAndOnlyWhenTheyChanged) {
  Submit("one");
  Submit("two");
  Taken();
  performer_->SaveCounters();
  EXPECT_EQ(Taken(), Trace{"store id1 counters, id2 counters"});
  performer_->SaveCounters();
  EXPECT_EQ(Taken(), Trace());
  performer_->Find("id2")->fragments->bytes_up().Add({.payload = 10, .total = 20});
  records_.counters_refusal = Full();
  performer_->SaveCounters();
  EXPECT_EQ(Taken(), Trace());
  EXPECT_EQ(fatal_, 0);
  records_.counters_refusal = absl::OkStatus();
  Pass(absl::Seconds(1));
  EXPECT_EQ(Taken(), Trace{"store id2 counters"});
  Pass(absl::Milliseconds(200));
  performer_->Find("id2")->fragments->bytes_up().Add({.payload = 1, .total = 1});
  Pass(absl::Milliseconds(200));
  EXPECT_EQ(Taken(), Trace()) << "once a second";
  Restart();
  EXPECT_EQ(performer_->Find("id2")->fragments->bytes_up().Value().total, 20);
}

TEST_F(PerformerTest, AFatalErrorWhileCountersAreStoredHalts) {
  Submit("job");
  records_.counters_refusal = MarkFatal(absl::DataLossError("input/output error"));
  performer_->SaveCounters();
  EXPECT_EQ(fatal_, 1);
}

TEST_F(PerformerTest, AnEndedJobIsForgottenAfterAWhile) {
  const std::string id = RunPair();
  Step(CancelJob{id});
  EXPECT_EQ(Taken(), (Trace{"store id1 CANCELLED", "begin background", "answer nothing",
                            "begin background", "end id1 CANCELLED"}));
  Pass(absl::Seconds(59));
  ASSERT_NE(performer_->Find(id), nullptr);
  EXPECT_NE(fragments_->Find(id), nullptr) << "its last commits can be pulled";
  EXPECT_FALSE(performer_->View(id).has_value());
  Pass(absl::Seconds(1));
  Crank();
  EXPECT_EQ(performer_->Find(id), nullptr);
  EXPECT_EQ(fragments_->Find(id), nullptr);
  EXPECT_EQ(meta_->GetJob(id)->ended, absl::FromUnixSeconds(1000));
  EXPECT_EQ(performer_->jobs_by_state().at(JobState::kCancelled), 1);
}

TEST_F(PerformerTest, ASubmitterHasAsManyLiveJobsAsThereIsRoomBesideThem) {
  int names = 0;
  const auto submit = [&](const std::string& owner) {
    return performer_->Submit(Spec(absl::StrCat("job-", ++names)), "", owner).status();
  };
  for (int i = 0; i < 500; ++i) ASSERT_EQ(submit("bob"), absl::OkStatus()) << i;
  const absl::Status refused = submit("bob");
  EXPECT_TRUE(absl::IsResourceExhausted(refused)) << refused;
  ASSERT_TRUE(ErrorInfoOf(refused).has_value());
  EXPECT_EQ(ErrorInfoOf(refused)->reason, "JOBS_FULL");
  EXPECT_FALSE(ErrorInfoOf(refused)->metadata.at("hint").empty());
  EXPECT_TRUE(absl::IsNotFound(meta_->GetJob("job-501").status()));
  EXPECT_EQ(submit("ann"), absl::OkStatus());
  // One that exists needs no room, and one that has ended takes none.
  EXPECT_TRUE(performer_->Submit(Spec("job-1"), "", "bob").ok());
  EXPECT_TRUE(absl::IsResourceExhausted(submit("bob"))) << "500, beside 501";
  Step(CancelJob{"id1"});
  EXPECT_EQ(submit("bob"), absl::OkStatus());
}

}  // namespace
}  // namespace longhaul::coordinator

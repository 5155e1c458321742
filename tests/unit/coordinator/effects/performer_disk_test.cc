// What waits for a full disk, and what a failed disk ends.
#include "common/rpc/status_details.h"
#include "coordinator/store/fatal.h"
#include "gmock/gmock.h"
#include "tests/unit/coordinator/effects/performer_testing.h"

namespace longhaul::coordinator {
namespace {

// --- A full disk.

TEST_F(PerformerTest, AFullDiskDelaysDecisionsInTheirOrder) {
  const std::string id = RunPair();
  performer_->SaveCounters();
  Taken();
  records_.Refuse(Full());
  Step(Failing(id, "b"));
  EXPECT_EQ(Taken(), Trace()) << "nothing of it is said";
  EXPECT_TRUE(absl::IsResourceExhausted(performer_->health()));
  EXPECT_NE(performer_->health().message().find("no space left"), std::string::npos);
  EXPECT_NE(performer_->View(id)->waiting->what.find("no space left"), std::string::npos);
  Step(LeavePool{"a", "1"});
  Pass(absl::Seconds(1));
  EXPECT_EQ(Taken(), Trace());
  EXPECT_FALSE((*meta_->ListParticipants(id))[1].left);
  records_.Refuse(absl::OkStatus());
  performer_->PassTime();
  EXPECT_EQ(Taken(),
            (Trace{"store id1 place of b gone", "answer lease b", "release b", "begin apply",
                   "store id1 place of a gone", "answer nothing", "release a"}));
  EXPECT_TRUE(performer_->health().ok());
}

TEST_F(PerformerTest, WhoGoesDownDoesNotWaitForAFullDisk) {
  const std::string id = RunPair();
  records_.Refuse(Full());
  Step(Failing(id, "b"));
  Step(LeavePool{"a", "1"});
  EXPECT_EQ(Taken(), Trace());
  performer_->GoDown();
  EXPECT_EQ(Taken(), (Trace{"answer refuse HALTED", "answer refuse HALTED"}));
  records_.Refuse(absl::OkStatus());
  performer_->PassTime();
  Step(Failing(id, "a"));
  EXPECT_EQ(Taken(), Trace{"answer refuse HALTED"}) << "it would follow on what was dropped";
  Restart();
  Crank();
  EXPECT_EQ(performer_->View(id)->participants.size(), 2u);
}

TEST_F(PerformerTest, WhoGoesDownDecidesUntilTheDiskIsFull) {
  const std::string id = RunPair();
  Taken();
  performer_->GoDown();
  Step(Failing(id, "b"));
  EXPECT_EQ(Words(answer_), "lease b");
  records_.Refuse(Full());
  Step(LeavePool{"a", "1"});
  EXPECT_EQ(Words(answer_), "refuse HALTED");
}

TEST_F(PerformerTest, OnAFullDiskNothingIsCancelled) {
  const std::string id = RunPair();
  records_.Refuse(Full());
  Step(Failing(id, "b"));
  Step(CancelJob{id});
  EXPECT_EQ(Taken(), Trace{"answer refuse DISK_FULL"});
  EXPECT_EQ(performer_->View(id)->state, JobState::kRunning);
}

TEST_F(PerformerTest, ARankMayBeAdmittedToAJobThatEndedWhileTheDiskWasFull) {
  const std::string id = Submit("job");
  Join("a");
  Step(Failing(id, "a"));
  Pass(absl::Seconds(5));
  records_.Refuse(Full());
  bool had_view = true;
  performer_->Step(RankReady{id, "a", "1", 0}, [&](const std::optional<Answer>& answer) {
    EXPECT_EQ(Words(answer), "admit a");
    had_view = performer_->View(id).has_value();
  });
  // Every pool reports the same fault, so the job fails.
  Step(Failing(id, "a"));
  records_.Refuse(absl::OkStatus());
  performer_->PassTime();
  EXPECT_FALSE(had_view) << "who makes its plan must look";
}

TEST_F(PerformerTest, OnAFullDiskAJoinIsRefusedAtOnce) {
  const std::string id = RunPair();
  records_.Refuse(Full());
  Step(Failing(id, "b"));
  Join("c");
  ASSERT_EQ(Taken(), Trace{"answer refuse DISK_FULL"});
  const Refuse refuse = std::get<Refuse>(*answer_);
  EXPECT_TRUE(absl::IsResourceExhausted(refuse.status));
  EXPECT_TRUE(RetryDelayOf(refuse.status).has_value());
  EXPECT_EQ(performer_->Pools().size(), 2u) << "nothing was decided about it";
  records_.Refuse(absl::OkStatus());
  performer_->PassTime();
  Taken();
  Join("c");
  EXPECT_EQ(Words(answer_), "lease c");
}

TEST_F(PerformerTest, OnAFullDiskAHeartbeatExtendsTheLeaseAndMustBeRepeated) {
  const std::string id = RunPair();
  records_.Refuse(Full());
  Step(Failing(id, "b"));
  now_ += absl::Seconds(3);
  Step(Heartbeat{"a", "1", id, 40});
  EXPECT_EQ(Taken(), Trace{"answer refuse DISK_FULL"});
  const Refuse refuse = std::get<Refuse>(*answer_);
  EXPECT_TRUE(absl::IsResourceExhausted(refuse.status));
  EXPECT_GT(refuse.retry_after, absl::ZeroDuration());
  EXPECT_EQ(performer_->Pools()[0].lease_end, now_ + absl::Seconds(10));
  EXPECT_EQ(performer_->View(id)->participants[0].inner_step, 40);
}

TEST_F(PerformerTest, OnAFullDiskRepeatedEvaluationsDoNotPileUp) {
  const std::string id = RunPair();
  performer_->SaveCounters();
  Taken();
  records_.Refuse(Full());
  Step(Failing(id, "b"));
  for (int i = 0; i < 3; ++i) Step(Evaluated(id, "a"));
  const Trace refused(3, "answer refuse DISK_FULL");
  EXPECT_EQ(Taken(), refused);
  EXPECT_EQ(performer_->View(id)->participants[0].inner_step, 4);
  records_.Refuse(absl::OkStatus());
  performer_->PassTime();
  EXPECT_EQ(Taken(),
            (Trace{"store id1 place of b gone", "answer lease b", "release b", "begin apply"}));
  Step(Evaluated(id, "a"));
  EXPECT_EQ(Taken(), (Trace{"store evaluation", "answer lease a"}));
}

TEST_F(PerformerTest, ACheckpointThatWaitsForTheDiskLeavesRoomForOtherEvents) {
  const std::string id = RunPair();
  performer_->Step(AskCheckpoint{id});
  files_.SetDecision(
      [](int64_t, FileOp op) { return op == FileOp::kCreateDir ? Full() : absl::OkStatus(); });
  Push(id, "b", 1, RoundKind::kOuter);
  const auto count = [&](v1::EventKind kind) {
    const std::vector<v1::JobEvent> events = performer_->EventsAfter(id, 0);
    return std::count_if(events.begin(), events.end(),
                         [&](const v1::JobEvent& event) { return event.kind() == kind; });
  };
  for (int i = 0; i < 10; ++i) {
    Crank();
    Pass(absl::Seconds(2));
  }
  EXPECT_EQ(count(v1::CHECKPOINT_FAILED), 1);
  EXPECT_EQ(count(v1::CHECKPOINT_WRITTEN), 0);
  files_.SetDecision(nullptr);
  Pass(absl::Minutes(1));
  Crank();
  EXPECT_EQ(count(v1::CHECKPOINT_WRITTEN), 1);
}

// A decision waits for the disk as every other, and its caller comes again.
TEST_F(PerformerTest, AJobThatFillsTheDiskIsStoredWhenThereIsRoom) {
  records_.Refuse(Full());
  const absl::Status first = performer_->Submit(Spec("job"), "once").status();
  EXPECT_TRUE(absl::IsResourceExhausted(first)) << first;
  EXPECT_TRUE(RetryDelayOf(first).has_value());
  EXPECT_TRUE(absl::IsNotFound(meta_->GetJob("job").status()));
  EXPECT_TRUE(performer_->jobs_by_state().empty());
  EXPECT_TRUE(absl::IsResourceExhausted(performer_->health())) << "the decision waits";
  EXPECT_TRUE(absl::IsResourceExhausted(performer_->Submit(Spec("job"), "once").status()));
  records_.Refuse(absl::OkStatus());
  Pass(absl::Seconds(1));
  EXPECT_EQ(performer_->Submit(Spec("job"), "once")->job, "id1");
}

TEST_F(PerformerTest, WhileDecisionsWaitForTheDiskNoJobIsTaken) {
  const std::string id = RunPair();
  records_.Refuse(Full());
  Step(Failing(id, "b"));
  const absl::Status refused = performer_->Submit(Spec("job"), "").status();
  EXPECT_TRUE(absl::IsResourceExhausted(refused));
  EXPECT_TRUE(RetryDelayOf(refused).has_value());
  // A job that exists already is still found.
  EXPECT_EQ(performer_->Submit(Spec("pair", 2), "")->job, id);
  EXPECT_EQ(Taken(), Trace());
}

// Whoever cannot cancel, pause and delete has to look for files by hand.
TEST_F(PerformerTest, OnAFullDiskJobsCanBeCancelledPausedAndDeleted) {
  const std::string pair = RunPair(), other = Submit("other"), third = Submit("third");
  Pass(absl::Seconds(1));
  const auto has_ballast = [this] { return disk_.Open(BallastPath("data")).ok(); };
  ASSERT_TRUE(has_ballast());
  // What is written takes space, except where the ballast was.
  records_.RefuseWhile([&] { return has_ballast() ? Full() : absl::OkStatus(); });
  Step(Failing(pair, "b"));
  EXPECT_TRUE(absl::IsResourceExhausted(performer_->health()));
  Step(CancelJob{other});
  EXPECT_EQ(meta_->GetJob(other)->state, JobState::kCancelled);
  EXPECT_FALSE(has_ballast());
  EXPECT_THAT(log_text_.str(), testing::HasSubstr("the reserved space is released"));
  for (const Event& command :
       {Event(DeleteJob{other, JobState::kCancelled}), Event(PauseJob{pair})}) {
    records_.RefuseWhile(nullptr);
    Pass(absl::Minutes(1));
    ASSERT_TRUE(has_ballast()) << "there is room again";
    records_.RefuseWhile([&] { return has_ballast() ? Full() : absl::OkStatus(); });
    Step(coordinator::CancelJob{third});
    Step(command);
  }
  EXPECT_TRUE(absl::IsNotFound(meta_->GetJob(other).status()));
  EXPECT_NE(performer_->Find(pair)->pause.stage, PauseStage::kNone);
}

// --- A failed disk.

TEST_F(PerformerTest, AFatalErrorHaltsOnce) {
  const std::string id = RunPair();
  records_.Refuse(MarkFatal(absl::DataLossError("input/output error")));
  Step(Failing(id, "b"));
  EXPECT_EQ(Taken(), Trace{"answer refuse HALTED"});
  EXPECT_TRUE(absl::IsUnavailable(performer_->health()));
  EXPECT_EQ(fatal_, 1);
  records_.Refuse(absl::OkStatus());
  Step(Heartbeat{"a", "1"});
  EXPECT_EQ(Taken(), Trace{"answer refuse HALTED"});
  EXPECT_TRUE(absl::IsUnavailable(performer_->Submit(Spec("job"), "").status()));
  EXPECT_TRUE(absl::IsUnavailable(performer_->Judge({id, "a", "1", 0, 1})));
  Pass(absl::Seconds(2));
  Crank();
  performer_->Note(MarkFatal(absl::DataLossError("again")));
  EXPECT_EQ(Taken(), Trace());
  EXPECT_EQ(fatal_, 1);
}

TEST_F(PerformerTest, ARecordThatTheDatabaseDoesNotTakeHalts) {
  const std::string id = RunPair();
  records_.Refuse(absl::NotFoundError("no such job"));
  Step(Failing(id, "b"));
  EXPECT_EQ(Words(answer_), "refuse HALTED");
  EXPECT_EQ(fatal_, 1);
}

TEST_F(PerformerTest, AFatalErrorAnswersEventsThatWaitForTheDisk) {
  const std::string id = RunPair();
  records_.Refuse(Full());
  Step(Failing(id, "b"));
  Step(LeavePool{"a", "1"});
  records_.Refuse(MarkFatal(absl::DataLossError("input/output error")));
  performer_->PassTime();
  EXPECT_EQ(Taken(), (Trace{"answer refuse HALTED", "answer refuse HALTED"}));
}

TEST_F(PerformerTest, AFatalErrorElsewhereAnswersEventsThatWaitForTheDisk) {
  const std::string id = RunPair();
  records_.Refuse(Full());
  Step(Failing(id, "b"));
  performer_->Note(MarkFatal(absl::DataLossError("input/output error")));
  performer_->PassTime();
  EXPECT_EQ(Taken(), Trace{"answer refuse HALTED"});
  EXPECT_EQ(fatal_, 1);
}

TEST_F(PerformerTest, AFatalErrorWhileAJobIsStoredHalts) {
  records_.Refuse(MarkFatal(absl::DataLossError("input/output error")));
  EXPECT_TRUE(absl::IsUnavailable(performer_->Submit(Spec("job"), "").status()));
  EXPECT_TRUE(absl::IsUnavailable(performer_->health()));
  EXPECT_EQ(fatal_, 1);
}

TEST_F(PerformerTest, AnEndedJobHasItsMemoryUntilItsStoreIsClosed) {
  memory_ = MemoryOf(Spec("pair"));
  Restart();
  const std::string pair = RunPair(), next = Submit("next");
  const auto waits_for = [&] { return performer_->View(next)->waiting->what; };
  EXPECT_THAT(waits_for(), testing::HasSubstr("memory"));
  // The pools are told of the end only once it is stored.
  records_.Refuse(Full());
  Step(CancelJob{pair});
  const auto pass = [&](int seconds) {
    for (int i = 0; i < seconds; ++i) {
      for (const char* pool : {"a", "b"}) Step(Heartbeat{pool, "1"});
      Pass(absl::Seconds(1));
      Crank();
    }
  };
  pass(40);
  records_.Refuse(absl::OkStatus());
  pass(19);
  EXPECT_NE(performer_->Find(pair), nullptr) << "its last commits can be pulled for a minute";
  // A work or stream that has not ended holds it longer.
  std::shared_ptr<SharedStore> stream = performer_->Find(pair)->fragments->store();
  pass(60);
  EXPECT_THAT(waits_for(), testing::HasSubstr("memory"));
  stream.reset();
  pass(1);
  EXPECT_EQ(performer_->Find(pair), nullptr);
  EXPECT_THAT(waits_for(), testing::HasSubstr("2 pools to load"));
}

}  // namespace
}  // namespace longhaul::coordinator

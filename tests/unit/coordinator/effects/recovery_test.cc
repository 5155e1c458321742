// What a start of the coordinator takes from the database.
#include "common/rpc/status_details.h"
#include "tests/unit/coordinator/effects/performer_testing.h"

namespace longhaul::coordinator {
namespace {

class PerformerRecoveryTest : public PerformerTest {
 protected:
  void Store(const std::string& name, const std::string& spec,
             const std::vector<ParticipantRecord>& places = {}) {
    JobRecord record{
        .id = name, .name = name, .state = JobState::kPending, .spec = spec, .created = now_};
    ASSERT_TRUE(meta_->Commit({NewJob{record}}).ok());
    for (ParticipantRecord place : places) {
      place.job_id = name;
      ASSERT_TRUE(meta_->Commit({place}).ok());
    }
  }
  void Store(const std::string& name, const std::vector<ParticipantRecord>& places = {}) {
    Store(name, Spec(name).spec.SerializeAsString(), places);
  }
  std::string ReasonOf(const std::string& id) {
    const std::optional<JobView> view = performer_->View(id);
    if (!view.has_value() || view->state != JobState::kQuarantined) return "";
    EXPECT_EQ(performer_->Find(id)->state(), JobState::kQuarantined);
    EXPECT_EQ(performer_->Find(id)->quarantine->message, view->fault->message);
    return view->fault->message;
  }
};

TEST_F(PerformerRecoveryTest, AJobWhoseRecordsCannotBeUsedIsQuarantinedAndOthersContinue) {
  v1::JobSpec refused = Spec("refused").spec;
  refused.mutable_train()->set_steps(-1);
  Store("bytes", "\xff\xff");
  Store("refused", refused.SerializeAsString());
  Store("gap", {{.pool = "a", .incarnation = "1", .ordinal = 1}});
  Store("twice", {{.pool = "a", .incarnation = "1", .ordinal = 0},
                  {.pool = "a", .incarnation = "2", .ordinal = 1}});
  Store("whole");
  Restart();
  EXPECT_NE(ReasonOf("bytes").find("damaged"), std::string::npos);
  EXPECT_NE(ReasonOf("refused").find("steps"), std::string::npos);
  EXPECT_NE(ReasonOf("gap").find("place 0 is missing"), std::string::npos);
  EXPECT_NE(ReasonOf("twice").find("two places"), std::string::npos);
  EXPECT_EQ(ReasonOf("whole"), "");
  Taken();
  Join("a");
  EXPECT_EQ(Taken(), (Trace{"store whole place of a", "answer lease a"}));
  performer_->SaveCounters();
  EXPECT_EQ(Taken(), Trace{"store whole counters"});
}

// Another version may continue it.
TEST_F(PerformerRecoveryTest, TheJobWithWhoseCheckpointAQuarantinedOneBeginsIsKept) {
  const std::string base = Submit("base");
  Step(CancelJob{base, ""});
  v1::JobSpec later = Spec("later").spec;
  later.mutable_train()->set_steps(-1);
  later.mutable_init()->set_checkpoint(base + "@6");
  Store("later", later.SerializeAsString());
  keep_ = absl::Hours(1);
  Restart();
  EXPECT_NE(ReasonOf("later"), "");
  Pass(absl::Hours(2));
  Pass(absl::Hours(2));
  EXPECT_TRUE(meta_->GetJob(base).ok());
  performer_->Delete(base, [](absl::StatusOr<Deleted> deleted) {
    EXPECT_EQ(ErrorInfoOf(deleted.status())->reason, "CHECKPOINT_IN_USE");
  });
  Step(CancelJob{"later", ""});
  Pass(absl::Minutes(1));
  EXPECT_TRUE(absl::IsNotFound(meta_->GetJob(base).status()));
  EXPECT_TRUE(meta_->GetJob("later").ok());
}

TEST_F(PerformerRecoveryTest, AQuarantinedJobCanBeCancelledAndRefusesItsPools) {
  Store("bytes", "\xff\xff", {{.pool = "a", .incarnation = "1", .ordinal = 0}});
  Restart();
  Join("a");
  EXPECT_FALSE(std::get<GrantLease>(*answer_).assignment.has_value());
  Step(RankReady{"bytes", "a", "1", 0});
  EXPECT_EQ(Words(answer_), "refuse JOB_QUARANTINED");
  EXPECT_EQ(ErrorInfoOf(performer_->Judge({"bytes", "a", "1", 0, 1}))->reason, "JOB_QUARANTINED");
  Taken();
  Step(CancelJob{"bytes", "no use"});
  EXPECT_EQ(Taken(), (Trace{"store bytes CANCELLED", "begin background", "answer nothing",
                            "end bytes CANCELLED", "begin background"}))
      << "its log is looked at";
  EXPECT_EQ(meta_->GetJob("bytes")->state, JobState::kCancelled);
  EXPECT_EQ(performer_->Find("bytes")->state(), JobState::kCancelled);
  Crank();
  EXPECT_EQ(performer_->Find("bytes"), nullptr);
}

TEST_F(PerformerRecoveryTest, AJobContinuesWhereItWas) {
  const std::string id = RunPair();
  Heartbeat evaluated{"a", "1", id, 5};
  evaluated.evaluations = {{.step = 4, .version = 0, .loss = 2.5}};
  Step(evaluated);
  v1::PoolProgress told;
  told.set_inner_step(5);
  told.set_tokens(50);
  performer_->Find(id)->progress.Report("a", "1", 0, told);
  performer_->SaveCounters();
  Restart();
  EXPECT_EQ(performer_->Find(id)->progress.EvaluationLoss().first(), 2.5);
  EXPECT_EQ(performer_->Find(id)->progress.pools().at("a").Total().tokens(), 50);
  EXPECT_EQ(performer_->View(id)->participants.size(), 2u);
  EXPECT_EQ(ErrorInfoOf(performer_->Judge({id, "b", "1", 0, 1}))->reason, "STORE_OPENING");
  EXPECT_FALSE(performer_->Find(id)->progress.HasCommits());
  Crank();
  EXPECT_TRUE(performer_->Find(id)->progress.HasCommits());
  const JobView view = *performer_->View(id);
  EXPECT_EQ(view.state, JobState::kRunning);
  EXPECT_EQ(performer_->jobs_by_state(), (std::map<JobState, int64_t>{{JobState::kRunning, 1}}));
  EXPECT_EQ(view.fragments[0].version, 0);
  EXPECT_EQ(view.fragments[0].contributors, std::vector<int>{0}) << "it lies in the log";
  EXPECT_EQ(performer_->Find(id)->progress.commit(0)->round.version, 0);
  Join("b");
  Push(id, "b", 1, RoundKind::kOuter);
  Taken();
  Crank();
  const Trace taken = Taken();
  EXPECT_EQ(std::count(taken.begin(), taken.end(), "publish id1 version 1"), 1);
}

TEST_F(PerformerRecoveryTest, APausedJobThatAnEarlierVersionContinuedIsPausedAgain) {
  const std::string id = RunPair();
  const MetaRecord paused = PauseRecord{id, PauseStage::kPaused};
  ASSERT_TRUE(meta_->Commit({&paused, 1}).ok());
  Restart();
  EXPECT_EQ(performer_->Find(id)->state(), JobState::kPausing);
  for (const char* pool : {"a", "b"}) Join(pool);
  Crank();
  EXPECT_EQ(performer_->Find(id)->state(), JobState::kPaused);
  EXPECT_EQ(performer_->View(id)->state, JobState::kPaused);
  EXPECT_EQ(performer_->Find(id)->fragments->store(), nullptr);
}

// The counts are stored once a second, so a commit may be newer.
TEST_F(PerformerRecoveryTest, WhatWasContributedToTheNewestCommitCountsAfterARestart) {
  const std::string id = RunPair();
  v1::PoolProgress told;
  told.set_inner_step(5);
  told.set_tokens(50);
  const auto contributed = [&] {
    JobProgress& progress = performer_->Find(id)->progress;
    progress.Report("a", "1", 0, told);
    return progress.pools().at("a").Total().contributed_tokens();
  };
  // A seed contains no training.
  Restart();
  Crank();
  EXPECT_EQ(contributed(), 0);
  Join("b");
  Push(id, "b", 1, RoundKind::kOuter);
  performer_->SaveCounters();
  Crank();
  ASSERT_EQ(performer_->View(id)->fragments[0].version, 1);
  Restart();
  Crank();
  EXPECT_EQ(contributed(), 50);
}

TEST_F(PerformerRecoveryTest, WhatSubmitWarnedOfStaysWithTheJobWhateverHappens) {
  publisher_.status_of = [](const LiveJob& job, const JobRecord&, const std::optional<JobFault>&) {
    v1::Job report;
    for (const auto& said : {job.resolved->warnings, job.resolved->beginning_warnings})
      report.mutable_warnings()->Add(said.begin(), said.end());
    return report.SerializeAsString();
  };
  ResolvedJob spec = Spec("tiny");
  spec.beginning_warnings = {"it joins documents"};
  std::vector<std::string> said = spec.warnings;
  said.push_back("it joins documents");
  ASSERT_TRUE(performer_->Submit(std::move(spec), "").ok());
  for (int restart = 0; restart < 2; ++restart) {
    const std::shared_ptr<LiveJob> job = performer_->Find("id1");
    for (size_t i = 0; i < JobEvents::kEventsMax; ++i)
      job->events.Add(MakeEvent(v1::POOL_BACK, v1::INFO, "is back"), now_);
    performer_->SaveCounters();
    Restart();
    const ResolvedJob& found = *performer_->Find("id1")->resolved;
    std::vector<std::string> says = found.warnings;
    says.insert(says.end(), found.beginning_warnings.begin(), found.beginning_warnings.end());
    EXPECT_EQ(says, said);
  }
}

}  // namespace
}  // namespace longhaul::coordinator

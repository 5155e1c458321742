// What remains of jobs that have ended, and when they are deleted.
#include "coordinator/store/checkpoint.h"
#include "coordinator/store/job_folder.h"
#include "gmock/gmock.h"
#include "tests/unit/coordinator/effects/performer_testing.h"

namespace longhaul::coordinator {
namespace {

using testing::HasSubstr;

// Of a job that has ended the checkpoints remain: the log and the snapshots serve recovery alone.
class EndedLogTest : public PerformerTest {
 protected:
  // A job that was cancelled behind its first outer round, and its checkpoint.
  std::string RunAndCancel() {
    const std::string id = RunPair();
    Push(id, "b", 1, RoundKind::kOuter);
    Crank();
    Step(CancelJob{id});
    Crank();
    EXPECT_TRUE(HasLog(id));
    return id;
  }
  // A job whose checkpoint could not be written when it was cancelled.
  std::string CancelWithoutCheckpoint(const std::string& name) {
    const std::string id = Submit(name, 1);
    Join("a");
    Step(RankReady{id, "a", "1", 0});
    Crank();
    Push(id, "a", 0, RoundKind::kSeed);
    Crank();
    Push(id, "a", 1, RoundKind::kOuter);
    Crank();
    background_.refuses = true;
    Step(CancelJob{id});
    Crank();
    background_.refuses = false;
    EXPECT_TRUE(Checkpoints(id).empty());
    return id;
  }
  std::vector<v1::CheckpointManifest> Checkpoints(const std::string& id) {
    const auto checkpoints = ListCheckpoints(disk_, JobFolder("data", id));
    EXPECT_TRUE(checkpoints.ok()) << checkpoints.status();
    return checkpoints.value_or(std::vector<v1::CheckpointManifest>());
  }
  bool HasLog(const std::string& id) { return disk_.List(LogFolder(JobFolder("data", id))).ok(); }
  // The log is removed a minute after the end.
  void PassLinger() {
    Pass(absl::Seconds(61));
    Crank();
  }
};

TEST_F(EndedLogTest, IsRemovedWhenTheJobIsForgotten) {
  const std::string id = RunAndCancel();
  Pass(absl::Seconds(59));
  Crank();
  EXPECT_TRUE(HasLog(id)) << "its last commits can be pulled";
  PassLinger();
  EXPECT_FALSE(HasLog(id));
  EXPECT_EQ(ListCheckpoints(disk_, JobFolder("data", id))->size(), 1u);
}

TEST_F(EndedLogTest, IsRemovedAfterARestart) {
  const std::string id = RunAndCancel();
  Restart();
  Pass(absl::Seconds(1));
  Crank();
  EXPECT_FALSE(HasLog(id));
  EXPECT_EQ(ListCheckpoints(disk_, JobFolder("data", id))->size(), 1u);
}

TEST_F(EndedLogTest, WaitsForTheLastStreamsAndIsTriedAgain) {
  const std::string id = RunAndCancel();
  std::shared_ptr<SharedStore> stream = performer_->Find(id)->fragments->store();
  PassLinger();
  EXPECT_TRUE(HasLog(id));
  files_.SetDecision([](int64_t, FileOp op) {
    return op == FileOp::kRename ? absl::UnavailableError("busy") : absl::OkStatus();
  });
  stream.reset();
  Crank();
  EXPECT_TRUE(HasLog(id));
  files_.SetDecision(nullptr);
  Pass(absl::Seconds(9));
  Crank();
  EXPECT_TRUE(HasLog(id));
  Pass(absl::Seconds(2));
  Crank();
  EXPECT_FALSE(HasLog(id));
  EXPECT_EQ(performer_->Find(id), nullptr);
}

TEST_F(EndedLogTest, StaysWithADamagedCheckpointAndSaysSo) {
  const std::string id = RunAndCancel();
  const std::string folder =
      CheckpointPath(JobFolder("data", id), CheckpointSteps(disk_, JobFolder("data", id))->back());
  ASSERT_TRUE((*disk_.Open(folder + "/fragment-000.f32"))->WriteAt(5, "damage").ok());
  PassLinger();
  EXPECT_TRUE(HasLog(id));
  EXPECT_NE(log_text_.str().find("its last checkpoint is damaged"), std::string::npos);
}

// The end of a job is stored before its checkpoint is written. What is missing then is written by
// the next start, or when the log would be removed.
TEST_F(EndedLogTest, ALastCheckpointThatIsMissingIsWritten) {
  for (const bool restart : {false, true}) {
    SCOPED_TRACE(restart);
    const std::string id = CancelWithoutCheckpoint(absl::StrCat("job-", restart));
    if (restart) Restart();
    PassLinger();
    const std::vector<v1::CheckpointManifest> checkpoints = Checkpoints(id);
    ASSERT_EQ(checkpoints.size(), 1u);
    EXPECT_TRUE(checkpoints.front().last());
    EXPECT_EQ(checkpoints.front().fragments(0).version(), 1);
    EXPECT_EQ(checkpoints.front().step(), 29);
    EXPECT_EQ(fragments_->Find(id), nullptr);
    Pass(absl::Seconds(11));
    Crank();
    EXPECT_FALSE(HasLog(id));
  }
}

// For that the job's state is in memory once more.
TEST_F(EndedLogTest, ALastCheckpointThatIsMissingWaitsForMemory) {
  memory_ = MemoryOf(Spec("any"));
  Restart();
  const std::string id = CancelWithoutCheckpoint("job");
  Restart();
  const std::string next = Submit("next");
  Join("a");
  Step(RankReady{next, "a", "1", 0});
  PassLinger();
  EXPECT_TRUE(Checkpoints(id).empty()) << "the next job has the memory";
  EXPECT_THAT(log_text_.str(), HasSubstr("not enough coordinator memory"));
  Step(CancelJob{next});
  Pass(absl::Minutes(1));
  const auto is_open = [&] { return fragments_->Find(id)->store() != nullptr; };
  while (!is_open() && (background_.RunOne() || owner_.RunOne())) {
  }
  ASSERT_TRUE(is_open()) << "as soon as the other one has none";
  const std::string last = Submit("last");
  Join("b");
  EXPECT_THAT(performer_->View(last)->waiting->what, HasSubstr("memory"));
  Crank();
  EXPECT_EQ(Checkpoints(id).size(), 1u);
  EXPECT_NE(performer_->Place(last, "b"), std::nullopt);
}

TEST_F(EndedLogTest, AJobThatWasNotSynchronisedOnceHasNoCheckpoint) {
  const std::string id = RunPair();
  Step(CancelJob{id});
  Crank();
  Restart();
  PassLinger();
  EXPECT_EQ(CheckpointSteps(disk_, JobFolder("data", id))->size(), 0u);
  EXPECT_TRUE(HasLog(id));
}

TEST_F(EndedLogTest, AJobThatEndedLongAgoIsDeleted) {
  keep_ = absl::Hours(1);
  Restart();
  const std::string id = RunAndCancel();
  PassLinger();
  Pass(absl::Hours(1) - absl::Seconds(62));
  EXPECT_TRUE(meta_->GetJob(id).ok());
  EXPECT_EQ(ListCheckpoints(disk_, JobFolder("data", id))->size(), 1u);
  // The time counts over a restart, from the job's end.
  Restart();
  EXPECT_TRUE(meta_->GetJob(id).ok());
  Pass(absl::Seconds(1));
  EXPECT_TRUE(absl::IsNotFound(meta_->GetJob(id).status()));
  EXPECT_EQ(*meta_->FindDeleted("pair"), id);
  EXPECT_EQ(expired_, std::vector<std::string>{id});
  EXPECT_EQ(performer_->jobs_by_state().at(JobState::kCancelled), 0);
  EXPECT_NE(log_text_.str().find("was deleted after it was kept for 1h"), std::string::npos);
  EXPECT_NE(registry_.Text().find("longhaul_coordinator_deleted_jobs_total{by=\"age\"} 1"),
            std::string::npos);
  // It ends here, before its files are removed.
  Restart();
  Crank();
  EXPECT_THAT(*disk_.List(JobsFolder("data")), testing::IsEmpty());
  EXPECT_THAT(*meta_->ListUnremoved(), testing::IsEmpty());
  EXPECT_EQ(expired_.size(), 1u);
}

TEST_F(EndedLogTest, AWrongClockDoesNotMakeAJobOld) {
  keep_ = absl::Hours(1);
  Restart();
  const std::string id = RunAndCancel();
  PassLinger();
  Pass(absl::Minutes(30));
  const absl::Time until = performer_->KeptUntil(*meta_->GetJob(id));
  // The machine begins with a clock that is wrong, and later with the right one.
  const absl::Duration wrong = absl::Hours(24 * 3650);
  now_ += wrong;
  Restart();
  Pass(absl::Minutes(10));
  EXPECT_TRUE(meta_->GetJob(id).ok());
  EXPECT_EQ(performer_->KeptUntil(*meta_->GetJob(id)), until + wrong);
  now_ -= wrong;
  Restart();
  EXPECT_EQ(performer_->KeptUntil(*meta_->GetJob(id)), until);
  Pass(until - now_ - absl::Seconds(1));
  EXPECT_TRUE(meta_->GetJob(id).ok());
  Pass(absl::Seconds(1));
  EXPECT_TRUE(absl::IsNotFound(meta_->GetJob(id).status()));
}

TEST_F(EndedLogTest, WhatWasNotWrittenOfTheRunTimeMakesAJobStayLonger) {
  keep_ = absl::Hours(1);
  Restart();
  Pass(absl::Minutes(10));
  const std::string id = RunAndCancel();
  Pass(absl::Seconds(30));
  const absl::Time until = performer_->KeptUntil(*meta_->GetJob(id));
  Restart();
  EXPECT_EQ(performer_->KeptUntil(*meta_->GetJob(id)), until + absl::Seconds(30));
}

// As --adopt makes them, and earlier programs.
TEST_F(EndedLogTest, AJobWhoseAgeIsNotKnownIsKeptFromTheFirstStart) {
  keep_ = absl::Hours(1);
  JobRecord record{.id = "id9", .name = "found", .state = JobState::kCompleted};
  record.created = record.ended = now_ - absl::Hours(100);
  const MetaRecord found = NewJob{record};
  ASSERT_EQ(meta_->Commit({&found, 1}), absl::OkStatus());
  Restart();
  EXPECT_EQ(performer_->KeptUntil(*meta_->GetJob("id9")), now_ + absl::Hours(1));
  Pass(absl::Minutes(59));
  EXPECT_TRUE(meta_->GetJob("id9").ok());
  Restart();
  Pass(absl::Seconds(59));
  EXPECT_TRUE(meta_->GetJob("id9").ok()) << "a restart does not begin it again, nor end it";
  Pass(absl::Seconds(1));
  EXPECT_TRUE(absl::IsNotFound(meta_->GetJob("id9").status()));
}

TEST_F(EndedLogTest, AJobIsNotDeletedForItsAgeWhileTheDiskIsFull) {
  keep_ = absl::Hours(1);
  Restart();
  const std::string id = RunAndCancel();
  records_.Refuse(Full());
  Pass(absl::Hours(2));
  Pass(absl::Seconds(1));
  EXPECT_TRUE(meta_->GetJob(id).ok());
  EXPECT_TRUE(expired_.empty());
  records_.Refuse(absl::OkStatus());
  Pass(absl::Seconds(1));
  EXPECT_TRUE(absl::IsNotFound(meta_->GetJob(id).status()));
  EXPECT_EQ(expired_, std::vector<std::string>{id});
}

TEST_F(EndedLogTest, ADeletedJobGoesWhole) {
  const std::string id = RunAndCancel();
  // The removal of the log has begun, and the job is deleted before it ends.
  Pass(absl::Seconds(61));
  performer_->Delete(
      id, [](absl::StatusOr<Deleted> deleted) { EXPECT_TRUE(deleted.ok()) << deleted.status(); });
  Pass(absl::Seconds(1));
  Crank();
  Pass(absl::Seconds(11));
  Crank();
  EXPECT_THAT(*disk_.List(JobsFolder("data")), testing::IsEmpty());
  EXPECT_THAT(*meta_->ListUnremoved(), testing::IsEmpty());
}

}  // namespace
}  // namespace longhaul::coordinator

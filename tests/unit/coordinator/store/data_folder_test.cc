#include "coordinator/store/data_folder.h"

#include <memory>

#include "coordinator/store/job_folder.h"
#include "coordinator/store/job_log_removal.h"
#include "coordinator/store/job_state_file.h"
#include "coordinator/store/job_store.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "longhaul/v1/job.pb.h"
#include "tests/testing/failing_filesystem.h"
#include "tests/testing/memory_filesystem.h"
#include "tests/unit/coordinator/store/store_testing.h"

namespace longhaul {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class DataFolderTest : public testing::Test {
 protected:
  static JobManifest Manifest(const std::string& id, const std::string& name) {
    JobManifest manifest = ManifestWith(SmallOptions());
    manifest.id = id;
    manifest.name = name;
    manifest.created = absl::FromUnixMicros(1000 - id.back());
    manifest.idempotency_token = "token of " + id;
    manifest.owner = "owner of " + id;
    return manifest;
  }
  void MakeStore(const std::string& id, const std::string& name) {
    ASSERT_TRUE(JobStore::Create(&fs_, JobFolder("data", id), Manifest(id, name)).ok());
  }
  // A store whose fragments have version 0.
  void MakeSeeded(const std::string& id, const std::string& name, int fragments = 2) {
    auto store = *JobStore::Create(&fs_, JobFolder("data", id), Manifest(id, name));
    for (int fragment = 0; fragment < fragments; ++fragment) {
      const int64_t elements = SmallOptions().fragment_elements[fragment];
      ASSERT_TRUE(Round(*store, fragment, RoundKind::kSeed, {NoiseOf(elements, 1)}).ok());
    }
  }
  void Note(const std::string& id, const JobStateNote& note) {
    ASSERT_TRUE(WriteJobState(fs_, JobFolder("data", id), note).ok());
  }
  void MakeRecord(const std::string& id, const std::string& name, JobState state) {
    const MetaRecord record = NewJob{{.id = id, .name = name, .state = state}};
    ASSERT_TRUE(meta_->Commit({&record, 1}).ok());
  }
  bool IsClean() {
    return Missing().empty() && CompareFolders(fs_, "data", *meta_)->unknown_folders.empty();
  }
  std::vector<std::string> Missing() {
    std::vector<std::string> ids;
    const FolderFindings findings = *CompareFolders(fs_, "data", *meta_);
    for (const JobKey& key : findings.missing_folders) ids.push_back(key.id);
    return ids;
  }

  MemoryFileSystem fs_;
  std::unique_ptr<MetaStore> meta_ = *MetaStore::Open(":memory:");
};

TEST_F(DataFolderTest, AnEmptyFolderIsClean) {
  EXPECT_TRUE(IsClean());
  MakeStore("a", "alpha");
  MakeRecord("a", "alpha", JobState::kRunning);
  EXPECT_TRUE(IsClean());
}

TEST_F(DataFolderTest, TellsWhichSideDoesNotKnowAJob) {
  MakeStore("a", "alpha");
  MakeStore("b", "beta");
  MakeRecord("b", "beta", JobState::kRunning);
  MakeRecord("c", "gamma", JobState::kRunning);
  MakeRecord("d", "delta", JobState::kCompleted);
  // Jobs in these states may never have had a store.
  MakeRecord("e", "epsilon", JobState::kPending);
  MakeRecord("f", "zeta", JobState::kCancelled);
  ASSERT_TRUE(fs_.CreateDir("data/jobs/g.tmp").ok());
  EXPECT_THAT(CompareFolders(fs_, "data", *meta_)->unknown_folders, ElementsAre("a"));
  EXPECT_THAT(Missing(), ElementsAre("c", "d"));
}

TEST_F(DataFolderTest, AdoptsInTheOrderOfSubmission) {
  MakeSeeded("a", "alpha");
  // Submitted before the other one.
  MakeSeeded("b", "beta");
  const Adoption adoption = *AdoptJobs(fs_, "data", *meta_);
  EXPECT_THAT(adoption.left_alone, IsEmpty());
  ASSERT_EQ(adoption.adopted.size(), 2u);
  EXPECT_EQ(adoption.adopted[0].id, "b");
  const JobRecord job = *meta_->GetJob("alpha");
  EXPECT_EQ(job.id, "a");
  EXPECT_EQ(job.state, JobState::kRunning);
  EXPECT_EQ(job.spec, "spec");
  EXPECT_EQ(job.created, Manifest("a", "alpha").created);
  EXPECT_EQ(meta_->FindJobByToken("token of a")->id, "a");
  EXPECT_EQ(job.ended, absl::InfinitePast());
  EXPECT_EQ(job.owner, "owner of a");
  EXPECT_TRUE(IsClean());
  EXPECT_THAT(AdoptJobs(fs_, "data", *meta_)->adopted, IsEmpty());
}

// Only a job that is being seeded asks a pool for the initial parameters.
TEST_F(DataFolderTest, AdoptsAJobWithoutAllItsInitialParametersAsOneThatIsSeeded) {
  MakeStore("a", "alpha");
  MakeSeeded("b", "beta", 1);
  MakeSeeded("c", "gamma");
  MakeSeeded("d", "delta");
  {
    const auto store = *JobStore::Recover(&fs_, JobFolder("data", "d"));
    ASSERT_TRUE(store->MaybeSnapshot().ok());
  }
  const auto damage = [&](const std::string& id, int64_t at) {
    const std::string log = JoinPath(LogFolder(JobFolder("data", id)), LogFileName(1));
    ASSERT_TRUE((*fs_.Open(log))->WriteAt(at, "damage").ok());
  };
  // It is not judged by a log that cannot be read.
  MakeStore("e", "epsilon");
  damage("e", 20);
  // A start leaves damaged contributions out.
  MakeSeeded("f", "zeta", 1);
  {
    const auto store = *JobStore::Recover(&fs_, JobFolder("data", "f"));
    const PartInfo info{{1, 0, RoundKind::kSeed}, "pool0", CodecKind::kFp32, {}};
    ASSERT_TRUE(Push(*store, info, NoiseOf(384, 1)).ok());
  }
  damage("f", 4096 + 90);
  EXPECT_EQ(AdoptJobs(fs_, "data", *meta_)->adopted.size(), 6u);
  for (const char* name : {"alpha", "beta", "zeta"})
    EXPECT_EQ(meta_->GetJob(name)->state, JobState::kSeeding) << name;
  for (const char* name : {"gamma", "delta", "epsilon"})
    EXPECT_EQ(meta_->GetJob(name)->state, JobState::kRunning) << name;
}

TEST_F(DataFolderTest, APausedJobStaysPaused) {
  MakeSeeded("a", "alpha");
  Note("a", {.state = JobState::kPaused,
             .at = absl::FromUnixMicros(5),
             .by = "me",
             .reason = "maintenance",
             .report = "report"});
  // It was being paused, so there was no report yet.
  MakeStore("b", "beta");
  Note("b", {.state = JobState::kPaused, .at = absl::FromUnixMicros(6), .by = "you"});
  MakeSeeded("c", "gamma");
  Note("c", {.state = JobState::kPaused});
  Note("c", {});
  EXPECT_EQ(AdoptJobs(fs_, "data", *meta_)->adopted.size(), 3u);
  EXPECT_EQ(meta_->GetJob("alpha")->state, JobState::kRunning);
  EXPECT_EQ(meta_->GetPause("a")->stage, PauseStage::kPaused);
  EXPECT_EQ(meta_->GetPause("a")->at, absl::FromUnixMicros(5));
  EXPECT_EQ(meta_->GetPause("a")->by, "me");
  EXPECT_EQ(meta_->GetPause("a")->reason, "maintenance");
  EXPECT_EQ(meta_->GetPause("a")->report, "report");
  EXPECT_EQ(meta_->GetJob("beta")->state, JobState::kSeeding);
  EXPECT_EQ(meta_->GetPause("b")->stage, PauseStage::kPausing);
  EXPECT_EQ(meta_->GetPause("c")->stage, PauseStage::kNone) << "it was resumed";
}

// Its log is still there: the coordinator was stopped within a minute, or there is no last
// checkpoint.
TEST_F(DataFolderTest, AJobThatHadEndedStaysEnded) {
  v1::Job report;
  report.set_inner_step(30);
  report.mutable_error()->set_message("no pool can do it");
  MakeSeeded("a", "alpha");
  Note("a", {.state = JobState::kFailed,
             .at = absl::FromUnixMicros(5),
             .report = report.SerializeAsString()});
  MakeSeeded("b", "beta");
  Note("b", {.state = JobState::kCancelled, .at = absl::FromUnixMicros(6)});
  EXPECT_EQ(AdoptJobs(fs_, "data", *meta_)->adopted.size(), 2u);
  const JobRecord failed = *meta_->GetJob("alpha");
  EXPECT_EQ(failed.state, JobState::kFailed);
  EXPECT_EQ(failed.ended, absl::FromUnixMicros(5));
  EXPECT_EQ(failed.status, report.SerializeAsString());
  EXPECT_EQ(meta_->GetJob("beta")->state, JobState::kCancelled);
  EXPECT_THAT(*meta_->ListUnended(), IsEmpty());
}

TEST_F(DataFolderTest, ADeletedJobIsRemovedAndNotAdopted) {
  MakeSeeded("a", "alpha");
  Note("a", {.state = JobState::kCancelled, .deleted = true});
  // Some of its files are gone, and its name is that of a later job.
  ASSERT_TRUE(RemoveFolder(fs_, LogFolder(JobFolder("data", "a"))).ok());
  MakeSeeded("b", "alpha");
  const Adoption adoption = *AdoptJobs(fs_, "data", *meta_);
  ASSERT_EQ(adoption.adopted.size(), 1u);
  EXPECT_EQ(adoption.adopted[0].id, "b");
  EXPECT_THAT(adoption.left_alone, ElementsAre(HasSubstr("jobs/a: the job was deleted")));
  EXPECT_THAT(*meta_->ListUnremoved(), ElementsAre("a"));
  EXPECT_TRUE(IsClean());
}

TEST_F(DataFolderTest, RemovingAJobsFilesNotesThatItWasDeleted) {
  MakeSeeded("a", "alpha");
  FailingFileSystem failing(&fs_);
  failing.SetDecision([](int64_t, FileOp op) {
    return op == FileOp::kRemove ? absl::InternalError("it is stopped here") : absl::OkStatus();
  });
  EXPECT_FALSE(RemoveJobStore(failing, JobFolder("data", "a")).ok());
  EXPECT_TRUE(ReadJobState(fs_, JobFolder("data", "a"))->deleted);
}

TEST_F(DataFolderTest, AJobWhoseNoteIsDamagedIsLeftAlone) {
  MakeSeeded("a", "alpha");
  ASSERT_TRUE(WriteFileAtomically(fs_, StatePath(JobFolder("data", "a")), "damage").ok());
  const Adoption adoption = *AdoptJobs(fs_, "data", *meta_);
  EXPECT_THAT(adoption.adopted, IsEmpty());
  EXPECT_THAT(adoption.left_alone, ElementsAre(HasSubstr("jobs/a/state")));
}

// Of the job that was cancelled, nothing else says how it ended.
TEST_F(DataFolderTest, AdoptsJobsWhoseLogWasRemovedAsEnded) {
  for (const bool final : {true, false}) {
    const std::string id = final ? "a" : "b";
    auto store = *JobStore::Create(&fs_, JobFolder("data", id), Manifest(id, id));
    for (const int fragment : {0, 1}) {
      const int64_t elements = SmallOptions().fragment_elements[fragment];
      ASSERT_TRUE(Round(*store, fragment, RoundKind::kSeed, {NoiseOf(elements, 1)}).ok());
    }
    v1::CheckpointManifest manifest;
    manifest.set_step(30);
    manifest.set_final(final);
    manifest.set_last(true);
    manifest.mutable_created_at()->set_seconds(77);
    ASSERT_TRUE(store->WriteCheckpoint(manifest).ok());
    store.reset();
    ASSERT_TRUE(*RemoveJobLog(fs_, JobFolder("data", id)));
  }
  EXPECT_EQ(AdoptJobs(fs_, "data", *meta_)->adopted.size(), 2u);
  for (const bool final : {true, false}) {
    const JobRecord job = *meta_->GetJob(final ? "a" : "b");
    EXPECT_EQ(job.state, final ? JobState::kCompleted : JobState::kCancelled);
    EXPECT_EQ(job.ended, absl::FromUnixSeconds(77));
    v1::Job status;
    ASSERT_TRUE(status.ParseFromString(job.status));
    EXPECT_EQ(status.inner_step(), 30);
    EXPECT_EQ(status.has_error(), !final);
  }
  EXPECT_THAT(*meta_->ListUnended(), IsEmpty());
}

TEST_F(DataFolderTest, LeavesAloneWhatItCannotAdopt) {
  MakeRecord("x", "alpha", JobState::kPending);
  // Its name is taken.
  MakeStore("a", "alpha");
  MakeStore("b", "beta");
  ASSERT_TRUE((*fs_.Open("data/jobs/b/manifest"))->WriteAt(30, "damage").ok());
  MakeStore("c", "gamma");
  ASSERT_TRUE(fs_.Rename("data/jobs/c", "data/jobs/d").ok());
  ASSERT_TRUE(fs_.CreateDir("data/jobs/e").ok());
  MakeStore("f", "zeta");
  const Adoption adoption = *AdoptJobs(fs_, "data", *meta_);
  ASSERT_EQ(adoption.adopted.size(), 1u);
  EXPECT_EQ(adoption.adopted[0].name, "zeta");
  EXPECT_THAT(
      adoption.left_alone,
      testing::UnorderedElementsAre(HasSubstr("jobs/a"), HasSubstr("jobs/b/manifest"),
                                    HasSubstr("manifest is that of job c"), HasSubstr("jobs/e")));
}

}  // namespace
}  // namespace longhaul

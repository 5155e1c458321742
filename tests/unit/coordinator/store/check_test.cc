#include "coordinator/store/check.h"

#include <functional>
#include <memory>

#include "absl/strings/str_cat.h"
#include "common/io/file_util.h"
#include "common/io/posix_filesystem.h"
#include "coordinator/store/data_folder.h"
#include "coordinator/store/job_folder.h"
#include "coordinator/store/job_log_removal.h"
#include "coordinator/store/job_store.h"
#include "coordinator/store/snapshot.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "longhaul/v1/job.pb.h"
#include "tests/testing/memory_filesystem.h"
#include "tests/testing/temp_dir.h"
#include "tests/unit/coordinator/store/store_testing.h"

namespace longhaul {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr char kJob[] = "data/jobs/id1";

// A job that ran, and one that only began.
class CheckTest : public testing::Test {
 protected:
  CheckTest() {
    Run(kJob, "id1", 8);
    Run("data/jobs/id2", "id2", 0);
    WriteDatabase({"id1", "id2"});
  }
  void Run(const std::string& dir, const std::string& id, int64_t versions) {
    JobManifest manifest = ManifestWith(SmallOptions());
    manifest.id = id;
    auto store = *JobStore::Create(&fs_, dir, manifest);
    for (int64_t version = 0; version < versions; ++version) {
      for (const int fragment : {0, 1}) {
        const int64_t elements = manifest.options.fragment_elements[fragment];
        const RoundKind kind = version == 0 ? RoundKind::kSeed : RoundKind::kOuter;
        ASSERT_TRUE(Round(*store, fragment, kind, {NoiseOf(elements, version)}).ok());
        ASSERT_TRUE(store->MaybeSnapshot().ok());
      }
    }
    if (versions == 0) return;
    v1::CheckpointManifest checkpoint;
    checkpoint.set_step(30);
    ASSERT_TRUE(store->WriteCheckpoint(checkpoint).ok());
  }
  void WriteDatabase(const std::vector<std::string>& ids, bool ended = false) {
    const TempDir dir;
    {
      const auto meta = *MetaStore::Open(dir.Join("coordinator.db"));
      for (const std::string& id : ids) {
        const MetaRecord job =
            NewJob{{.id = id,
                    .name = id + "name",
                    .state = ended ? JobState::kCompleted : JobState::kRunning,
                    .ended = ended ? absl::FromUnixSeconds(1) : absl::InfinitePast()}};
        ASSERT_TRUE(meta->Commit({&job, 1}).ok());
      }
    }
    const std::string bytes =
        *ReadFile(*MakePosixFileSystem(), dir.Join("coordinator.db"), 1 << 20);
    ASSERT_TRUE((*fs_.Create(DatabasePath("data")))->WriteAt(0, bytes).ok());
  }
  // The findings after a change of a copy.
  std::vector<std::string> After(const std::function<void(FileSystem&)>& change) {
    const auto copy = fs_.CrashCopy(UnsyncedFate::kKept);
    change(*copy);
    return CheckDataFolder(*copy, "data", 1).findings;
  }
  static std::function<void(FileSystem&)> Spoil(const std::string& path, int64_t offset) {
    return [=](FileSystem& fs) { ASSERT_TRUE((*fs.Open(path))->WriteAt(offset, "damage").ok()); };
  }
  static std::function<void(FileSystem&)> Remove(const std::string& path) {
    return [=](FileSystem& fs) { ASSERT_TRUE(fs.Remove(path).ok()); };
  }

  MemoryFileSystem fs_;
};

TEST_F(CheckTest, FindsNothingWrong) {
  const CheckReport report = CheckDataFolder(fs_, "data", 1);
  EXPECT_THAT(report.findings, IsEmpty());
  EXPECT_THAT(report.notes, IsEmpty());
  EXPECT_EQ(report.jobs, 2);
  EXPECT_EQ(report.snapshots, 4);
  EXPECT_EQ(report.checkpoints, 1);
  EXPECT_GT(report.rounds, 2);
  EXPECT_GT(report.log_frames, 10);
  EXPECT_THAT(report.Summary(), HasSubstr("checked 2 jobs"));
}

TEST_F(CheckTest, NamesTheFileAndTheByte) {
  const std::string log = JoinPath(LogFolder(kJob), fs_.List(LogFolder(kJob))->at(0));
  EXPECT_THAT(After(Spoil(log, 4096 + 100)),
              ElementsAre(testing::AllOf(HasSubstr(log), HasSubstr("at byte 4096"))));
  const std::string snapshot =
      JoinPath(SnapshotFolder(kJob), fs_.List(SnapshotFolder(kJob))->at(1));
  EXPECT_THAT(After(Spoil(snapshot, 5000)),
              ElementsAre(testing::AllOf(HasSubstr(snapshot), HasSubstr("at byte 4096"))));
  EXPECT_THAT(After(Spoil(ManifestPath(kJob), 20)), ElementsAre(HasSubstr("id1/manifest")));
  EXPECT_THAT(After(Remove(ManifestPath(kJob))), ElementsAre(HasSubstr("manifest is missing")));
  const std::string checkpoint = JoinPath(CheckpointFolder(kJob), "step-00000030");
  EXPECT_THAT(After(Spoil(JoinPath(checkpoint, "fragment-001.f32"), 400)),
              ElementsAre(HasSubstr("fragment-001.f32 is damaged")));
  EXPECT_THAT(After(Remove(JoinPath(checkpoint, "fragment-001.f32"))),
              ElementsAre(HasSubstr("fragment-001.f32")));
  EXPECT_THAT(After(Spoil(JoinPath(checkpoint, "manifest.json"), 0)),
              ElementsAre(HasSubstr("manifest.json")));
}

TEST_F(CheckTest, ChecksTheDatabase) {
  const std::string path = DatabasePath("data");
  EXPECT_THAT(After(Remove(path)), ElementsAre(HasSubstr("coordinator.db is missing")));
  EXPECT_THAT(After(Spoil(path, 0)), ElementsAre(HasSubstr("coordinator.db")));
  EXPECT_THAT(After([&](FileSystem& fs) { ASSERT_TRUE((*fs.Open(path))->Truncate(0).ok()); }),
              ElementsAre(HasSubstr("coordinator.db is empty")));
  EXPECT_THAT(After([&](FileSystem& fs) {
                ASSERT_TRUE((*fs.Create(path + "-wal"))->WriteAt(0, std::string(9000, 'w')).ok());
              }),
              ElementsAre(HasSubstr("coordinator.db-wal")));
  WriteDatabase({"id1", "id3"});
  EXPECT_THAT(After([](FileSystem&) {}),
              ElementsAre(HasSubstr("jobs/id2: the database does not know this job"),
                          HasSubstr("jobs/id3 is missing")));
}

TEST_F(CheckTest, FindsASnapshotOfAnotherState) {
  const auto files = ListSnapshots(fs_, SnapshotFolder(kJob))->files;
  FragmentState state(1000);
  ASSERT_TRUE(ReadSnapshot(fs_, files[1], &state).ok());
  state.error[7] += 1;
  ASSERT_TRUE(WriteSnapshot(fs_, SnapshotFolder(kJob), 0, state).ok());
  EXPECT_THAT(CheckDataFolder(fs_, "data", 1).findings,
              ElementsAre(HasSubstr("holds another state")));
}

TEST_F(CheckTest, OnlyAJobThatHasEndedMayHaveNoLog) {
  EXPECT_THAT(After([](FileSystem& fs) { ASSERT_TRUE(RemoveFolder(fs, LogFolder(kJob)).ok()); }),
              ElementsAre(HasSubstr("data/jobs/id1/log is missing")));
  {
    auto store = *JobStore::Recover(&fs_, kJob);
    v1::CheckpointManifest checkpoint;
    checkpoint.set_step(40);
    checkpoint.set_last(true);
    ASSERT_TRUE(store->WriteCheckpoint(checkpoint).ok());
  }
  ASSERT_TRUE(*RemoveJobLog(fs_, kJob));
  EXPECT_THAT(CheckDataFolder(fs_, "data", 1).findings,
              ElementsAre(HasSubstr("data/jobs/id1: the log was removed")));
  ASSERT_TRUE(fs_.Remove(DatabasePath("data")).ok());
  WriteDatabase({"id1", "id2"}, /*ended=*/true);
  ASSERT_TRUE(fs_.CreateDir(RemovedLogFolder(kJob)).ok());
  const CheckReport report = CheckDataFolder(fs_, "data", 1);
  EXPECT_THAT(report.findings, IsEmpty());
  EXPECT_THAT(report.notes, ElementsAre(HasSubstr("log.removed: the next start removes it")));
  EXPECT_EQ(report.checkpoints, 2);
}

TEST_F(CheckTest, FilesThatACrashLeavesAreNotAFault) {
  ASSERT_TRUE(fs_.CreateDir("data/jobs/id9.tmp").ok());
  ASSERT_TRUE(fs_.Create(JoinPath(SnapshotFolder(kJob), "x.snap.tmp")).ok());
  ASSERT_TRUE(fs_.CreateDir(JoinPath(CheckpointFolder(kJob), "step-00000060.tmp")).ok());
  const auto names = *fs_.List(SnapshotFolder(kJob));
  const CheckReport report = CheckDataFolder(fs_, "data", 1);
  EXPECT_THAT(report.findings, IsEmpty());
  EXPECT_EQ(report.notes.size(), 3u);
  EXPECT_EQ(*fs_.List(SnapshotFolder(kJob)), names);
}

}  // namespace
}  // namespace longhaul

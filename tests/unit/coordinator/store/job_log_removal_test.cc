#include "coordinator/store/job_log_removal.h"

#include <algorithm>
#include <memory>

#include "absl/strings/str_cat.h"
#include "common/io/file_util.h"
#include "coordinator/store/checkpoint.h"
#include "coordinator/store/job_folder.h"
#include "coordinator/store/job_store.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/failing_filesystem.h"
#include "tests/testing/memory_filesystem.h"
#include "tests/unit/coordinator/store/store_testing.h"

namespace longhaul {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

constexpr char kJobDir[] = "data/jobs/id1";

class JobLogRemovalTest : public testing::Test {
 protected:
  JobLogRemovalTest() {
    auto store = *JobStore::Create(&fs_, kJobDir, ManifestWith(SmallOptions()));
    for (int64_t version = 0; version < 8; ++version) {
      for (const int fragment : {0, 1}) {
        const int64_t elements = SmallOptions().fragment_elements[fragment];
        const RoundKind kind = version == 0 ? RoundKind::kSeed : RoundKind::kOuter;
        EXPECT_TRUE(Round(*store, fragment, kind, {NoiseOf(elements, version)}).ok());
        EXPECT_TRUE(store->MaybeSnapshot().ok());
      }
      if (version == 4) WriteCheckpoint(*store, 20, false);
    }
    store_ = std::move(store);
  }
  void WriteCheckpoint(JobStore& store, int64_t step, bool last) {
    v1::CheckpointManifest manifest;
    manifest.set_step(step);
    manifest.set_last(last);
    EXPECT_TRUE(store.WriteCheckpoint(manifest).ok());
  }
  void End() {
    WriteCheckpoint(*store_, 40, true);
    store_.reset();
  }
  static bool IsThere(FileSystem& fs, const std::string& folder) { return fs.List(folder).ok(); }

  MemoryFileSystem fs_;
  std::unique_ptr<JobStore> store_;
};

TEST_F(JobLogRemovalTest, LeavesTheCheckpointsAndTheManifest) {
  End();
  EXPECT_FALSE(*IsLogRemoved(fs_, kJobDir));
  EXPECT_TRUE(*RemoveJobLog(fs_, kJobDir));
  EXPECT_TRUE(*IsLogRemoved(fs_, kJobDir));
  EXPECT_THAT(*fs_.List(kJobDir), testing::UnorderedElementsAre("manifest", "checkpoints"));
  EXPECT_EQ(ReadLastCheckpoint(fs_, kJobDir)->value().step(), 40);
  EXPECT_EQ(ListCheckpoints(fs_, kJobDir)->size(), 2u);
  EXPECT_THAT(CheckCheckpoint(fs_, CheckpointPath(kJobDir, 40)), IsEmpty());
  // Nothing is left to do.
  FailingFileSystem counted(&fs_);
  EXPECT_TRUE(*RemoveJobLog(counted, kJobDir));
  EXPECT_EQ(counted.operations(), 0);
}

TEST_F(JobLogRemovalTest, AJobWithoutAStoreHasNothingToRemove) {
  EXPECT_TRUE(*RemoveJobLog(fs_, "data/jobs/id2"));
}

TEST_F(JobLogRemovalTest, KeepsTheLogOfAJobThatDidNotEndWithACheckpoint) {
  store_.reset();
  EXPECT_FALSE(*RemoveJobLog(fs_, kJobDir));
  EXPECT_FALSE(*IsLogRemoved(fs_, kJobDir));
  EXPECT_TRUE(JobStore::Recover(&fs_, kJobDir).ok());
}

TEST_F(JobLogRemovalTest, TakesTheFinalCheckpointOfAnEarlierVersionForTheLast) {
  v1::CheckpointManifest manifest;
  manifest.set_step(40);
  manifest.set_final(true);
  ASSERT_TRUE(store_->WriteCheckpoint(manifest).ok());
  store_.reset();
  EXPECT_TRUE(*RemoveJobLog(fs_, kJobDir));
}

// Earlier versions did not mark what a job left that was cancelled.
TEST_F(JobLogRemovalTest, TakesTheNewestCheckpointForTheLastIfItHasAll) {
  WriteCheckpoint(*store_, 40, false);
  store_.reset();
  EXPECT_TRUE(*RemoveJobLog(fs_, kJobDir));
  EXPECT_TRUE(*IsLogRemoved(fs_, kJobDir));
  EXPECT_EQ(ReadLastCheckpoint(fs_, kJobDir)->value().step(), 40);
  EXPECT_THAT(CheckCheckpoint(fs_, CheckpointPath(kJobDir, 40)), IsEmpty());
}

TEST_F(JobLogRemovalTest, KeepsADamagedLogWithoutALastCheckpoint) {
  WriteCheckpoint(*store_, 40, false);
  store_.reset();
  const std::vector<std::string> files = *fs_.List(LogFolder(kJobDir));
  const std::string first =
      JoinPath(LogFolder(kJobDir), *std::min_element(files.begin(), files.end()));
  ASSERT_TRUE((*fs_.Open(first))->WriteAt(4096 + 90, "damage").ok());
  EXPECT_FALSE(*RemoveJobLog(fs_, kJobDir));
  EXPECT_TRUE(IsThere(fs_, LogFolder(kJobDir)));
}

TEST_F(JobLogRemovalTest, KeepsTheLogIfTheLastCheckpointIsDamaged) {
  End();
  const std::string file = CheckpointPath(kJobDir, 40) + "/fragment-001.f32";
  ASSERT_TRUE((*fs_.Open(file))->WriteAt(17, "damage").ok());
  const absl::StatusOr<bool> removed = RemoveJobLog(fs_, kJobDir);
  EXPECT_TRUE(absl::IsDataLoss(removed.status())) << removed.status();
  EXPECT_THAT(std::string(removed.status().message()), HasSubstr("fragment-001.f32"));
  EXPECT_TRUE(JobStore::Recover(&fs_, kJobDir).ok());
}

TEST_F(JobLogRemovalTest, AMissingLogWithoutALastCheckpointIsALoss) {
  store_.reset();
  ASSERT_TRUE(fs_.Rename(LogFolder(kJobDir), absl::StrCat(kJobDir, "/elsewhere")).ok());
  EXPECT_TRUE(absl::IsDataLoss(IsLogRemoved(fs_, kJobDir).status()));
  // What is left of it stays.
  EXPECT_FALSE(*RemoveJobLog(fs_, kJobDir));
  EXPECT_TRUE(IsThere(fs_, SnapshotFolder(kJobDir)));
}

// At each operation, with each fate of what was not synced: either the log is whole, or the job
// counts as ended, and the next try removes the rest.
TEST_F(JobLogRemovalTest, ACrashLeavesTheWholeLogOrNone) {
  End();
  const auto copy = fs_.CrashCopy(UnsyncedFate::kKept);
  FailingFileSystem whole(copy.get());
  ASSERT_TRUE(RemoveJobLog(whole, kJobDir).ok());
  ASSERT_GT(whole.operations(), 5);
  for (int64_t stop = 0; stop < whole.operations(); ++stop) {
    for (const UnsyncedFate fate :
         {UnsyncedFate::kDropped, UnsyncedFate::kKept, UnsyncedFate::kRandom}) {
      SCOPED_TRACE(absl::StrCat("operation ", stop, ", fate ", static_cast<int>(fate)));
      const auto disk = fs_.CrashCopy(UnsyncedFate::kKept);
      FailingFileSystem dying(disk.get());
      dying.FailFrom(stop, absl::CancelledError("gone"));
      EXPECT_FALSE(RemoveJobLog(dying, kJobDir).ok());
      const auto left = disk->CrashCopy(fate, stop);
      const absl::StatusOr<bool> removed = IsLogRemoved(*left, kJobDir);
      ASSERT_TRUE(removed.ok()) << removed.status();
      if (!*removed) {
        EXPECT_TRUE(JobStore::Recover(left.get(), kJobDir).ok());
      }
      EXPECT_TRUE(*RemoveJobLog(*left, kJobDir));
      EXPECT_THAT(*left->List(kJobDir), testing::UnorderedElementsAre("manifest", "checkpoints"));
      EXPECT_THAT(CheckCheckpoint(*left, CheckpointPath(kJobDir, 40)), IsEmpty());
    }
  }
}

}  // namespace
}  // namespace longhaul

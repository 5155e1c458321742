#include "coordinator/store/job_state_file.h"

#include "common/io/file_util.h"
#include "coordinator/store/job_folder.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/failing_filesystem.h"
#include "tests/testing/memory_filesystem.h"

namespace longhaul {
namespace {

class JobStateFileTest : public testing::Test {
 protected:
  JobStateFileTest() { EXPECT_TRUE(CreateDirs(memory_, "jobs/a").ok()); }

  MemoryFileSystem memory_;
  FailingFileSystem fs_{&memory_};
};

TEST_F(JobStateFileTest, WithoutANoteAJobGoesOn) {
  EXPECT_EQ(ReadJobState(fs_, "jobs/a")->state, JobState::kRunning);
  EXPECT_EQ(ReadJobState(fs_, "jobs/none")->state, JobState::kRunning);
  EXPECT_FALSE(ReadJobState(fs_, "jobs/a")->deleted);
}

TEST_F(JobStateFileTest, KeepsTheLastNote) {
  ASSERT_TRUE(WriteJobState(fs_, "jobs/a",
                            {.state = JobState::kPaused,
                             .at = absl::FromUnixMicros(77),
                             .by = "me",
                             .reason = "maintenance",
                             .report = "bytes"})
                  .ok());
  const JobStateNote paused = *ReadJobState(fs_, "jobs/a");
  EXPECT_EQ(paused.state, JobState::kPaused);
  EXPECT_EQ(paused.at, absl::FromUnixMicros(77));
  EXPECT_EQ(paused.by, "me");
  EXPECT_EQ(paused.reason, "maintenance");
  EXPECT_EQ(paused.report, "bytes");
  ASSERT_TRUE(WriteJobState(fs_, "jobs/a", {.state = JobState::kFailed, .deleted = true}).ok());
  EXPECT_EQ(ReadJobState(fs_, "jobs/a")->state, JobState::kFailed);
  EXPECT_TRUE(ReadJobState(fs_, "jobs/a")->deleted);
  EXPECT_EQ(ReadJobState(fs_, "jobs/a")->at, absl::InfinitePast());
}

TEST_F(JobStateFileTest, AJobWithoutAFolderGetsNone) {
  EXPECT_TRUE(WriteJobState(fs_, "jobs/none", {.state = JobState::kPaused}).ok());
  EXPECT_TRUE(absl::IsNotFound(memory_.List("jobs/none").status()));
}

TEST_F(JobStateFileTest, AFullDiskLeavesTheNoteBefore) {
  ASSERT_TRUE(WriteJobState(fs_, "jobs/a", {.state = JobState::kPaused}).ok());
  fs_.SetDecision([](int64_t, FileOp) { return absl::ResourceExhaustedError("no space"); });
  EXPECT_TRUE(absl::IsResourceExhausted(WriteJobState(fs_, "jobs/a", {})));
  fs_.SetDecision(nullptr);
  EXPECT_EQ(ReadJobState(fs_, "jobs/a")->state, JobState::kPaused);
}

TEST_F(JobStateFileTest, TellsOfDamageAndOfOtherFormats) {
  const std::string path = StatePath("jobs/a");
  ASSERT_TRUE(WriteJobState(fs_, "jobs/a", {.state = JobState::kCancelled}).ok());
  const std::string good = *ReadFile(memory_, path, 1 << 20);
  for (size_t byte = 8; byte < good.size(); ++byte) {
    std::string bad = good;
    bad[byte] ^= 1;
    ASSERT_TRUE(WriteFileAtomically(memory_, path, bad).ok());
    const absl::Status refused = ReadJobState(fs_, "jobs/a").status();
    EXPECT_TRUE(absl::IsDataLoss(refused)) << byte;
    EXPECT_THAT(std::string(refused.message()), testing::HasSubstr(path));
  }
  std::string later = good;
  later[7] = '2';
  ASSERT_TRUE(WriteFileAtomically(memory_, path, later).ok());
  EXPECT_TRUE(absl::IsFailedPrecondition(ReadJobState(fs_, "jobs/a").status()));
  // A state that no job has in its folder.
  ASSERT_TRUE(WriteJobState(fs_, "jobs/a", {.state = JobState::kQuarantined}).ok());
  EXPECT_TRUE(absl::IsDataLoss(ReadJobState(fs_, "jobs/a").status()));
}

}  // namespace
}  // namespace longhaul

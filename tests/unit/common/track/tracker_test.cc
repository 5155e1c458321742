#include "common/track/tracker.h"

#include "common/io/file_util.h"
#include "gtest/gtest.h"
#include "tests/testing/hand_crank.h"
#include "tests/testing/memory_filesystem.h"

namespace longhaul {
namespace {

class TrackerTest : public testing::Test {
 protected:
  std::string Lines(const std::string& folder) {
    crank_.RunAll();
    return ReadFile(fs_, folder + "/scalars.jsonl", 1 << 20).value_or("none");
  }
  static TrackedStep At(int64_t step, double seconds = 0) {
    return {step, absl::UnixEpoch() + absl::Seconds(seconds), {{"loss", 1}}};
  }

  MemoryFileSystem fs_;
  HandCrank crank_;
  Tracker tracker_{&fs_, &crank_, Logger({})};
};

TEST_F(TrackerTest, WritesRunsOnItsRunner) {
  tracker_.Add("a", At(1));
  EXPECT_TRUE(fs_.List("")->empty());
  tracker_.AddText("b", absl::UnixEpoch(), "spec", "x");
  EXPECT_EQ(Lines("a"), "{\"step\":1,\"time\":0.0,\"loss\":1.0}\n");
  EXPECT_EQ(Lines("b"), "{\"step\":0,\"time\":0.0,\"spec\":\"x\"}\n");
}

TEST_F(TrackerTest, ClosingWritesWhatWasKept) {
  tracker_.AddSometimes("a", "s", absl::Minutes(1), At(1));
  tracker_.AddSometimes("a", "s", absl::Minutes(1), At(2, 1));
  const std::string before = Lines("a");
  tracker_.Close("b");
  EXPECT_EQ(Lines("a"), before);
  tracker_.Close("a");
  EXPECT_EQ(Lines("a"), before + "{\"step\":2,\"time\":1.0,\"loss\":1.0}\n");
}

// A job that has no folder yet.
TEST_F(TrackerTest, ARunThatCannotBeOpenedIsTriedAgainLater) {
  tracker_.Add("job/track/run", At(1));
  EXPECT_EQ(Lines("job/track/run"), "none");
  ASSERT_TRUE(fs_.CreateDir("job").ok());
  tracker_.Add("job/track/run", At(2, 10));
  EXPECT_EQ(Lines("job/track/run"), "none");
  tracker_.Add("job/track/run", At(3, 40));
  EXPECT_EQ(Lines("job/track/run"), "{\"step\":3,\"time\":40.0,\"loss\":1.0}\n");
}

TEST_F(TrackerTest, AFullQueueLosesPointsAndNothingElse) {
  crank_.refuses = true;
  tracker_.Add("a", At(1));
  crank_.refuses = false;
  tracker_.Add("a", At(2));
  EXPECT_EQ(Lines("a"), "{\"step\":2,\"time\":0.0,\"loss\":1.0}\n");
}

}  // namespace
}  // namespace longhaul

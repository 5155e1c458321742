// The fault search as a test: many seeds without a violation, and the proof that the checker would
// see one.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "absl/strings/str_format.h"
#include "tests/simulation/cluster.h"

namespace longhaul::simulation {
namespace {

constexpr uint64_t kSeeds = 1500;

TEST(SimulationTest, NoSeedBreaksAnInvariant) {
  int64_t commits = 0, completed = 0;
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    const RunResult result = RunCluster({.seed = seed});
    ASSERT_FALSE(result.violation.has_value())
        << "seed " << seed << ": " << *result.violation << "\n  " << result.summary
        << absl::StrFormat("\nsee it: cluster_search --from %d --seeds 1 --trace", seed);
    commits += result.commits;
    completed += result.jobs_completed;
  }
  // The runs do something.
  EXPECT_GT(completed, static_cast<int64_t>(kSeeds));
  EXPECT_GT(commits, static_cast<int64_t>(10 * kSeeds));
}

TEST(SimulationTest, ASeedIsOneRun) {
  for (uint64_t seed : {1, 7, 281, 498}) {
    const RunResult first = RunCluster({.seed = seed}), second = RunCluster({.seed = seed});
    EXPECT_EQ(first.events, second.events);
    EXPECT_EQ(first.summary, second.summary);
  }
}

// Seeds until one shows a violation whose text begins with `kind`.
testing::AssertionResult IsSeen(Mutation mutation, const std::string& kind) {
  constexpr uint64_t kTries = 400;
  std::string other;
  for (uint64_t seed = 1; seed <= kTries; ++seed) {
    const RunResult result = RunCluster({.seed = seed, .mutation = mutation});
    if (!result.violation.has_value()) continue;
    if (result.violation->starts_with(kind)) return testing::AssertionSuccess();
    other = *result.violation;
  }
  return testing::AssertionFailure()
         << "no violation of " << kind << " in " << kTries << " seeds; " << other;
}

TEST(CheckerTest, SeesOtherBytesOfAVersion) {
  EXPECT_TRUE(IsSeen(Mutation::kDamagedDownlink, "1:"));
}
TEST(CheckerTest, SeesAContributionThatCountsTwice) {
  EXPECT_TRUE(IsSeen(Mutation::kApplyTwice, "2:"));
}
TEST(CheckerTest, SeesErrorFeedbackThatChangesAtThePush) {
  EXPECT_TRUE(IsSeen(Mutation::kEarlyFeedback, "2:"));
}
TEST(CheckerTest, SeesACommitThatIsPublishedTooEarly) {
  EXPECT_TRUE(IsSeen(Mutation::kLyingDisk, "3:"));
}
TEST(CheckerTest, SeesACommitThatIsLost) { EXPECT_TRUE(IsSeen(Mutation::kStaleDisk, "3:")); }
TEST(CheckerTest, SeesTwoEffectsThatChangedPlaces) {
  EXPECT_TRUE(IsSeen(Mutation::kLateRecords, "3:"));
}
TEST(CheckerTest, SeesAPlaceThatIsLost) { EXPECT_TRUE(IsSeen(Mutation::kLostPlace, "3:")); }
TEST(CheckerTest, SeesACheckpointThatIsForgotten) {
  EXPECT_TRUE(IsSeen(Mutation::kLostRequest, "5:"));
}
TEST(CheckerTest, SeesADeletedJobThatIsBack) { EXPECT_TRUE(IsSeen(Mutation::kLostDeletion, "3:")); }
TEST(CheckerTest, SeesASeedAfterACommit) { EXPECT_TRUE(IsSeen(Mutation::kReseed, "4:")); }

}  // namespace
}  // namespace longhaul::simulation

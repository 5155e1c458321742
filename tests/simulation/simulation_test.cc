// The fault search as a test: many seeds without a violation, and the proof that the checker would
// see one.
#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/str_format.h"
#include "tests/simulation/cluster.h"
#include "tests/simulation/group_checker.h"

namespace longhaul::simulation {
namespace {

constexpr uint64_t kSeeds = 1500;

TEST(SimulationTest, NoSeedBreaksAnInvariant) {
  int64_t commits = 0, completed = 0, quarantined = 0, struck = 0, left_out = 0;
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    const RunResult result = RunCluster({.seed = seed});
    ASSERT_FALSE(result.violation.has_value())
        << "seed " << seed << ": " << *result.violation << "\n  " << result.summary
        << absl::StrFormat("\nsee it: cluster_search --from %d --seeds 1 --trace", seed);
    commits += result.commits;
    completed += result.jobs_completed;
    quarantined += result.quarantined;
    struck += result.struck;
    left_out += result.left_out;
  }
  // The runs do something.
  EXPECT_GT(completed, static_cast<int64_t>(kSeeds));
  EXPECT_GT(commits, static_cast<int64_t>(10 * kSeeds));
  EXPECT_GT(quarantined, static_cast<int64_t>(kSeeds / 20));
  EXPECT_GT(struck, static_cast<int64_t>(kSeeds / 20));
  EXPECT_GT(left_out, static_cast<int64_t>(kSeeds / 5));
}

TEST(SimulationTest, ASeedIsOneRun) {
  for (uint64_t seed : {1, 7, 281, 498}) {
    const RunResult first = RunCluster({.seed = seed}), second = RunCluster({.seed = seed});
    EXPECT_EQ(first.events, second.events);
    EXPECT_EQ(first.summary, second.summary);
  }
}

// Seeds until one shows a violation whose text begins with `kind`. Some mutations are seen by one
// seed in hundreds.
testing::AssertionResult IsSeen(Mutation mutation, const std::string& kind) {
  constexpr uint64_t kTries = 2000;
  std::string other;
  for (uint64_t seed = 1; seed <= kTries; ++seed) {
    const RunResult result = RunCluster({.seed = seed, .mutation = mutation});
    if (!result.violation.has_value()) continue;
    if (result.violation->starts_with(kind)) {
      testing::Test::RecordProperty("seed", std::to_string(seed));
      return testing::AssertionSuccess();
    }
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
TEST(CheckerTest, SeesAContributionThatLostItsWeight) {
  EXPECT_TRUE(IsSeen(Mutation::kLostWeight, "2:"));
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
TEST(CheckerTest, SeesAPauseThatIsForgotten) { EXPECT_TRUE(IsSeen(Mutation::kLostPause, "3:")); }
TEST(CheckerTest, SeesADeletedJobThatIsBack) { EXPECT_TRUE(IsSeen(Mutation::kLostDeletion, "3:")); }
TEST(CheckerTest, SeesAGroupThatIsTakenForTheOneBefore) {
  EXPECT_TRUE(IsSeen(Mutation::kReusedGroup, "nodes:"));
}
TEST(CheckerTest, SeesANumberThatTwoNodesHave) {
  EXPECT_TRUE(IsSeen(Mutation::kStaleNumber, "nodes:"));
}
TEST(CheckerTest, SeesASeedAfterACommit) { EXPECT_TRUE(IsSeen(Mutation::kReseed, "4:")); }

// Two incarnations of a pool of one node. `began`: when the first rank did the step.
class IncarnationsTest : public testing::Test {
 protected:
  IncarnationsTest() {
    for (const RankId& rank : {first_, second_}) groups_.Starts(rank, 1, 1);
  }
  void Trains(const RankId& rank, int began, int now) {
    groups_.Trains(rank, absl::FromUnixSeconds(began), absl::FromUnixSeconds(now));
  }

  Checker checker_;
  GroupChecker groups_{&checker_};
  const RankId first_{.job = "j", .pool = "a", .incarnation = "g1"};
  const RankId second_{.job = "j", .pool = "a", .incarnation = "g2"};
};

TEST_F(IncarnationsTest, OneThatTrainsAgainIsSeen) {
  Trains(first_, 1, 2);
  Trains(second_, 4, 5);
  Trains(second_, 6, 6);
  Trains(first_, 3, 7);
  EXPECT_EQ(checker_.violation(), std::nullopt) << "one rank of it stood still";
  Trains(first_, 7, 7);
  EXPECT_EQ(checker_.violation(), "nodes: a/g1 trains after a later incarnation did");
}

TEST_F(IncarnationsTest, OneMayDoItsOnlyStepLate) {
  Trains(second_, 4, 5);
  Trains(first_, 3, 7);
  Trains(second_, 8, 8);
  EXPECT_EQ(checker_.violation(), std::nullopt) << "the rank that did it stood still";
  Trains(first_, 9, 9);
  Trains(second_, 10, 10);
  EXPECT_EQ(checker_.violation(), "nodes: a/g2 trains after a later incarnation did");
}

TEST(GroupCheckerTest, SeesAGroupThatTrainsWithoutANode) {
  Checker checker;
  GroupChecker groups(&checker);
  const RankId rank{.job = "j", .pool = "a", .incarnation = "g1"};
  groups.Starts(rank, 1, 2);
  groups.Trains(rank, absl::UnixEpoch(), absl::UnixEpoch());
  EXPECT_EQ(checker.violation(), "nodes: a/g1 trains on 1 machines, and has 2 nodes");
}

TEST(GroupCheckerTest, SeesAMachineThatLosesItsNumber) {
  Checker checker;
  GroupChecker groups(&checker);
  const coordinator::JoinPool join{.pool = "a", .nodes = 3, .host = "h"};
  const NodeView third{.node = 2, .here = true, .host = "third"};
  groups.Joined(join, {{.node = 0, .here = true, .host = "other"}, {.node = 1, .host = "h"}, third},
                {.node = 1, .nodes = 3});
  // Without a node the pool is forgotten.
  groups.Joined(join, {{.node = 0, .host = "other"}, {.node = 1, .host = "h"}},
                {.node = 0, .nodes = 2});
  EXPECT_EQ(checker.violation(), std::nullopt);
  groups.Joined(join, {{.node = 0, .host = "other"}, {.node = 1, .host = "h"}, third},
                {.node = 0, .nodes = 3});
  EXPECT_EQ(checker.violation(), "nodes: h of pool a had number 1 and has 0 now");
}

}  // namespace
}  // namespace longhaul::simulation

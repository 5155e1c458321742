#include "coordinator/sync/round.h"

#include <gtest/gtest.h>

namespace longhaul {
namespace {

const absl::Time kNow = absl::UnixEpoch();

// Pools a, b, c with these start steps.
Participants Pools(std::vector<int64_t> starts) {
  Participants pools;
  for (size_t i = 0; i < starts.size(); ++i)
    pools.Add(std::string(1, static_cast<char>('a' + i)), "1").start_step = starts[i];
  return pools;
}

TEST(RoundTest, WaitsForEveryLivePoolThatOwesIt) {
  const Participants pools = Pools({0, 0});
  Round round(1, RoundKind::kOuter, 3);
  EXPECT_EQ(round.Decide(pools), RoundVerdict::kWait);
  round.Add(1, kNow);
  EXPECT_EQ(round.Decide(pools), RoundVerdict::kWait);
  EXPECT_EQ(round.Owing(pools, Presence::kLive), std::vector<int>{0});
  round.Add(0, kNow);
  EXPECT_EQ(round.Decide(pools), RoundVerdict::kApply);
  EXPECT_EQ(round.contributors(), (std::set<int>{0, 1}));
}

TEST(RoundTest, DoesNotWaitForPoolsThatBeganLater) {
  Participants pools = Pools({0, 3});
  Round round(1, RoundKind::kOuter, 3);
  round.Add(0, kNow);
  EXPECT_EQ(round.Decide(pools), RoundVerdict::kApply);
}

TEST(RoundTest, KeepsWhatALostPoolContributed) {
  Participants pools = Pools({0, 0});
  Round round(1, RoundKind::kOuter, 3);
  round.Add(0, kNow);
  pools.at(0).presence = Presence::kLost;
  EXPECT_EQ(round.Decide(pools), RoundVerdict::kWait);
  round.Add(1, kNow);
  EXPECT_EQ(round.Decide(pools), RoundVerdict::kApply);
  EXPECT_TRUE(round.Has(0));
}

TEST(RoundTest, WaitsWhileNobodyIsThere) {
  Participants pools = Pools({0});
  pools.at(0).presence = Presence::kLost;
  Round round(1, RoundKind::kOuter, 3);
  EXPECT_EQ(round.Decide(pools), RoundVerdict::kWait);
  EXPECT_EQ(round.Owing(pools, Presence::kLost), std::vector<int>{0});
}

TEST(RoundTest, IsSkippedWhenNobodyWhoIsThereOwesIt) {
  const Participants pools = Pools({5});
  Round round(1, RoundKind::kOuter, 3);
  EXPECT_EQ(round.Decide(pools), RoundVerdict::kSkip);
  round.Close();
  EXPECT_EQ(round.Decide(pools), RoundVerdict::kWait);
}

TEST(RoundTest, ASeedIsOneContribution) {
  const Participants pools = Pools({0, 0});
  Round round(0, RoundKind::kSeed, 0);
  EXPECT_EQ(round.Decide(pools), RoundVerdict::kWait);
  round.Add(1, kNow);
  EXPECT_EQ(round.Decide(pools), RoundVerdict::kApply);
}

TEST(RoundDeathTest, AContributionThatCountsTwiceIsOurMistake) {
  Round round(1, RoundKind::kOuter, 3);
  round.Add(0, kNow);
  EXPECT_DEATH(round.Add(0, kNow), "counts once");
}

}  // namespace
}  // namespace longhaul

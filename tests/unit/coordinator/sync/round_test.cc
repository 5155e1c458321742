#include "coordinator/sync/round.h"

#include <gtest/gtest.h>

namespace longhaul {
namespace {

const absl::Time kNow = absl::UnixEpoch();
using Contributors = std::map<int, std::string>;

// Pools a, b, c with these start steps.
Participants Pools(std::vector<int64_t> starts) {
  Participants pools;
  for (size_t i = 0; i < starts.size(); ++i)
    pools.Take(std::string(1, static_cast<char>('a' + i)), "1").start_step = starts[i];
  return pools;
}

TEST(RoundTest, WaitsForEveryLivePoolThatOwesIt) {
  const Participants pools = Pools({0, 0});
  Round round({0, 1, RoundKind::kOuter}, 3, {});
  EXPECT_EQ(round.Decide(pools, kNow, 0), RoundVerdict::kWait);
  round.Add(1, "1", kNow);
  EXPECT_EQ(round.Decide(pools, kNow, 0), RoundVerdict::kWait);
  EXPECT_EQ(round.Owing(pools, Presence::kLive), std::vector<int>{0});
  round.Add(0, "1", kNow + absl::Seconds(1));
  EXPECT_EQ(round.Decide(pools, kNow, 0), RoundVerdict::kApply);
  EXPECT_EQ(round.contributors(), (Contributors{{0, "1"}, {1, "1"}}));
  EXPECT_EQ(round.opened_at(), kNow);
}

TEST(RoundTest, DoesNotWaitForPoolsThatBeganLater) {
  Participants pools = Pools({0, 3});
  Round round({0, 1, RoundKind::kOuter}, 3, {});
  round.Add(0, "1", kNow);
  EXPECT_EQ(round.Decide(pools, kNow, 0), RoundVerdict::kApply);
}

TEST(RoundTest, KeepsWhatALostPoolContributed) {
  Participants pools = Pools({0, 0});
  Round round({0, 1, RoundKind::kOuter}, 3, {});
  round.Add(0, "1", kNow);
  pools.at(0).presence = Presence::kLost;
  EXPECT_EQ(round.Decide(pools, kNow, 0), RoundVerdict::kWait);
  round.Add(1, "1", kNow);
  EXPECT_EQ(round.Decide(pools, kNow, 0), RoundVerdict::kApply);
  EXPECT_TRUE(round.Has(0));
}

TEST(RoundTest, WaitsWhileNoPoolIsReady) {
  Participants pools = Pools({0});
  pools.at(0).presence = Presence::kLost;
  Round round({0, 1, RoundKind::kOuter}, 3, {});
  EXPECT_EQ(round.Decide(pools, kNow, 0), RoundVerdict::kWait);
  EXPECT_EQ(round.Owing(pools, Presence::kLost), std::vector<int>{0});
}

TEST(RoundTest, IsSkippedWhenNoReadyPoolOwesIt) {
  const Participants pools = Pools({5});
  Round round({0, 1, RoundKind::kOuter}, 3, {});
  EXPECT_EQ(round.Decide(pools, kNow, 0), RoundVerdict::kSkip);
  round.Close();
  EXPECT_EQ(round.Decide(pools, kNow, 0), RoundVerdict::kWait);
}

TEST(RoundTest, DoesNotWaitForAPoolThatDrainsBeforeIt) {
  Participants pools = Pools({0, 0});
  pools.at(1).last_step = 2;
  Round round({0, 1, RoundKind::kOuter}, 3, {});
  EXPECT_EQ(round.Owing(pools, Presence::kLive), std::vector<int>{0});
  round.Add(0, "1", kNow);
  EXPECT_EQ(round.Decide(pools, kNow, 0), RoundVerdict::kApply);
}

TEST(RoundTest, WaitsForAPoolThatDrainsAfterIt) {
  Participants pools = Pools({0, 0});
  pools.at(1).last_step = 3;
  Round round({0, 1, RoundKind::kOuter}, 3, {});
  round.Add(0, "1", kNow);
  EXPECT_EQ(round.Decide(pools, kNow, 0), RoundVerdict::kWait);
  round.Add(1, "1", kNow);
  EXPECT_EQ(round.Decide(pools, kNow, 0), RoundVerdict::kApply);
}

TEST(RoundTest, DoesNotWaitForAPoolThatIsAwayAndDoesNotMissIt) {
  Participants pools = Pools({0, 0});
  pools.at(1).presence = Presence::kAway;
  Round round({0, 1, RoundKind::kOuter}, 3, {});
  round.Add(0, "1", kNow);
  EXPECT_EQ(round.Decide(pools, kNow, 0), RoundVerdict::kApply);
  EXPECT_TRUE(round.Owing(pools, Presence::kLost).empty());
}

// Otherwise a job whose only pool drains would run through all its rounds at once.
TEST(RoundTest, IsNotSkippedWhileOnlyPoolsThatDrainBeforeItAreThere) {
  Participants pools = Pools({0});
  pools.at(0).last_step = 2;
  Round round({0, 1, RoundKind::kOuter}, 3, {});
  EXPECT_EQ(round.Decide(pools, kNow, 0), RoundVerdict::kWait);
  pools.Take("b", "1").start_step = 3;
  EXPECT_EQ(round.Decide(pools, kNow, 0), RoundVerdict::kSkip);
}

TEST(RoundTest, ARemovedContributionCanBeMadeAgain) {
  const Participants pools = Pools({0, 0});
  Round round({0, 1, RoundKind::kOuter}, 3, {});
  round.Add(0, "1", kNow);
  round.Remove(0);
  EXPECT_FALSE(round.Has(0) || round.opened());
  round.Add(0, "2", kNow);
  round.Remove(1);
  EXPECT_EQ(round.contributors(), (Contributors{{0, "2"}}));
}

TEST(RoundTest, ASeedIsOneContribution) {
  const Participants pools = Pools({0, 0});
  Round round({0, 0, RoundKind::kSeed}, 0, {});
  EXPECT_EQ(round.Decide(pools, kNow, 0), RoundVerdict::kWait);
  round.Add(1, "1", kNow);
  EXPECT_EQ(round.Decide(pools, kNow, 0), RoundVerdict::kApply);
}

TEST(RoundTest, AQuorumCallsTheOthersAndWaitsForThemDuringTheGrace) {
  const Participants pools = Pools({0, 0, 0});
  Round round({0, 1, RoundKind::kOuter}, 3, {.quorum = 2, .grace = absl::Seconds(5)});
  round.Add(0, "1", kNow);
  EXPECT_FALSE(round.called() || round.behind_newcomers() || round.TakeCall());
  EXPECT_EQ(round.Decide(pools, kNow + absl::Hours(1), 0), RoundVerdict::kWait);
  const absl::Time called = kNow + absl::Seconds(1);
  round.Add(1, "1", called);
  EXPECT_TRUE(round.called() && round.behind_newcomers() && round.TakeCall());
  EXPECT_FALSE(round.TakeCall()) << "the call is taken once";
  EXPECT_EQ(round.due_at(), called + absl::Seconds(5));
  EXPECT_EQ(round.Decide(pools, called + absl::Seconds(4), 0), RoundVerdict::kWait);
  EXPECT_EQ(round.Decide(pools, called + absl::Seconds(5), 0), RoundVerdict::kApply);
  round.Add(2, "1", called);
  EXPECT_EQ(round.Decide(pools, called, 0), RoundVerdict::kApply);
}

TEST(RoundTest, AQuorumDoesNotWaitForLostPools) {
  Participants pools = Pools({0, 0, 0});
  Round round({0, 1, RoundKind::kOuter}, 3, {.quorum = 2, .grace = absl::Hours(1)});
  round.Add(0, "1", kNow);
  round.Add(1, "1", kNow);
  pools.at(2).presence = Presence::kLost;
  EXPECT_EQ(round.Decide(pools, kNow, 0), RoundVerdict::kApply);
}

TEST(RoundTest, WithFewerPoolsThanTheQuorumARoundWaits) {
  Participants pools = Pools({0, 0});
  Round round({0, 1, RoundKind::kOuter}, 3, {.quorum = 2});
  round.Add(0, "1", kNow);
  pools.at(1).presence = Presence::kLost;
  EXPECT_EQ(round.Decide(pools, kNow, 0), RoundVerdict::kWait);
  // A pool that does not train up to the push is none of the quorum.
  pools.at(1).presence = Presence::kLive;
  pools.at(1).last_step = 2;
  EXPECT_EQ(round.Decide(pools, kNow, 0), RoundVerdict::kWait);
  // Whoever comes now would begin after the push.
  EXPECT_EQ(round.Decide(pools, kNow, 3), RoundVerdict::kApply);
  // Others that began after the push will not contribute.
  pools.Take("c", "1").start_step = 3;
  EXPECT_EQ(round.Decide(pools, kNow, 0), RoundVerdict::kApply);
}

TEST(RoundTest, ACallEndsWithTheContributionThatMadeIt) {
  const Participants pools = Pools({0, 0});
  Round round({0, 1, RoundKind::kOuter}, 3, {.quorum = 1, .grace = absl::Seconds(5)});
  round.Add(0, "1", kNow);
  EXPECT_TRUE(round.TakeCall());
  round.Remove(0);
  EXPECT_FALSE(round.called());
  EXPECT_EQ(round.Decide(pools, kNow + absl::Hours(1), 0), RoundVerdict::kWait);
  // Pools that came in between do not know of the first call.
  round.Add(0, "2", kNow + absl::Hours(1));
  EXPECT_TRUE(round.TakeCall());
  EXPECT_EQ(round.due_at(), kNow + absl::Hours(1) + absl::Seconds(5));
}

TEST(RoundTest, ACalledRoundIsAppliedWhenNobodyIsLeftWhoCouldContribute) {
  Participants pools = Pools({0, 0});
  Round round({0, 1, RoundKind::kOuter}, 3, {.quorum = 1, .grace = absl::Hours(1)});
  round.Add(0, "1", kNow);
  pools.at(0).presence = Presence::kLeft;
  // It may come back in time.
  pools.at(1).presence = Presence::kLost;
  EXPECT_EQ(round.Decide(pools, kNow, 0), RoundVerdict::kWait);
  pools.at(1).presence = Presence::kLeft;
  EXPECT_EQ(round.Decide(pools, kNow, 0), RoundVerdict::kApply);
}

TEST(RoundDeathTest, ChecksForOurOwnMistakes) {
  Round round({0, 1, RoundKind::kOuter}, 3, {});
  round.Add(0, "1", kNow);
  EXPECT_DEATH(round.Add(0, "1", kNow), "counts once");
  round.Close();
  EXPECT_DEATH(round.Remove(0), "closed");
}

}  // namespace
}  // namespace longhaul

#include "coordinator/sync/exchange.h"

#include <gtest/gtest.h>

namespace longhaul {
namespace {

const absl::Time kStart = absl::UnixEpoch();
using Verdict = ContributionVerdict;
using Contributors = std::map<int, std::string>;

// Fragment 0 is pushed at 1, 5, 9, fragment 1 at 3, 7, 11. The final round is at 12.
class ExchangeTest : public testing::Test {
 protected:
  Exchange Make(const RoundPolicy& policy = {}) {
    return Exchange(
        RoundPlan(MakeSchedule({.fragments = 2, .h = 4, .tau = 1, .steps = 12}), 12, true), policy);
  }
  // An exchange at version 0. Pool a made the seed.
  Exchange MakeSeeded(const RoundPolicy& policy = {}) {
    Exchange e = Make(policy);
    AddReady(e, "a", 0);
    e.PickSeeder();
    for (int f : {0, 1}) e.Contribute(e.participants().at(0), f, kStart);
    for (const DueRound& due : e.Due(kStart)) e.Commit(due.round.fragment, due.round.version);
    return e;
  }
  static Participant& AddReady(Exchange& e, const std::string& pool, int64_t start) {
    Participant& p = e.participants().Take(pool, "1");
    p.start_step = start;
    e.PoolsChanged();
    return p;
  }
  static void Commit(Exchange& e, int fragment) {
    const int64_t version = e.fragment(fragment).version + 1;
    for (const Participant& p : e.participants().all()) {
      if (p.ready() && p.Owes(e.plan().PushStep(fragment, version)))
        e.Contribute(p, fragment, kStart);
    }
    ASSERT_EQ(e.Due(kStart).size(), 1);
    ASSERT_TRUE(e.Commit(fragment, version));
  }
};

TEST_F(ExchangeTest, TheSeederIsTheReadyPoolOfTheLowestOrdinalAndStaysIt) {
  Exchange e = Make();
  EXPECT_EQ(e.PickSeeder(), nullptr);
  e.participants().Take("a", "1");
  AddReady(e, "b", 0);
  EXPECT_EQ(e.PickSeeder()->pool, "b");
  e.participants().at(0).start_step = 0;
  EXPECT_EQ(e.PickSeeder()->pool, "b");
  e.participants().at(1).presence = Presence::kLost;
  EXPECT_EQ(e.PickSeeder()->pool, "a");
}

TEST_F(ExchangeTest, SaysWhatIsWrongWithAContribution) {
  Exchange e = MakeSeeded();
  const Participant& a = e.participants().at(0);
  EXPECT_EQ(e.Judge(&a, {0, 1, RoundKind::kOuter}), Verdict::kAccept);
  EXPECT_EQ(e.Judge(&a, {2, 1, RoundKind::kOuter}), Verdict::kFragmentUnknown);
  EXPECT_EQ(e.Judge(&a, {-1, 1, RoundKind::kOuter}), Verdict::kFragmentUnknown);
  EXPECT_EQ(e.Judge(nullptr, {0, 1, RoundKind::kOuter}), Verdict::kNotParticipant);
  EXPECT_EQ(e.Judge(&a, {0, 2, RoundKind::kOuter}), Verdict::kVersionMismatch);
  EXPECT_EQ(e.Judge(&a, {0, 0, RoundKind::kSeed}), Verdict::kVersionMismatch);
  EXPECT_EQ(e.Judge(&a, {0, 1, RoundKind::kFinal}), Verdict::kKindMismatch);
  EXPECT_EQ(e.Judge(&AddReady(e, "b", 1), {0, 1, RoundKind::kOuter}), Verdict::kNotRequired);
  EXPECT_EQ(e.Judge(&e.participants().Take("c", "1"), {0, 1, RoundKind::kOuter}),
            Verdict::kNotReady);
  e.Contribute(a, 0, kStart);
  EXPECT_EQ(e.Judge(&a, {0, 1, RoundKind::kOuter}), Verdict::kRepeated);
  const Participant& late = AddReady(e, "d", 0);
  EXPECT_EQ(e.Judge(&late, {0, 1, RoundKind::kOuter}), Verdict::kAccept);
  e.participants().at(late.ordinal).presence = Presence::kLost;
  EXPECT_EQ(e.Judge(&late, {0, 1, RoundKind::kOuter}), Verdict::kNotLive);
  EXPECT_EQ(e.Due(kStart).size(), 1);
  e.participants().at(late.ordinal).presence = Presence::kMissed;
  EXPECT_EQ(e.Judge(&late, {0, 1, RoundKind::kOuter}), Verdict::kNotParticipant);
}

TEST_F(ExchangeTest, ARoundIsDueOnceAndCommitsOnce) {
  Exchange e = MakeSeeded();
  e.Contribute(e.participants().at(0), 1, kStart);
  EXPECT_FALSE(e.Commit(1, 1));
  const std::vector<DueRound> due = e.Due(kStart);
  ASSERT_EQ(due.size(), 1);
  EXPECT_EQ(due[0].round.fragment, 1);
  EXPECT_EQ(due[0].contributors, (Contributors{{0, "1"}}));
  e.PoolsChanged();
  EXPECT_TRUE(e.Due(kStart).empty());
  EXPECT_TRUE(e.Commit(1, 1));
  EXPECT_FALSE(e.Commit(1, 1));
  EXPECT_EQ(e.fragment(1).version, 1);
}

TEST_F(ExchangeTest, ANewcomerBeginsWhereTheOthersAre) {
  Exchange e = MakeSeeded();
  EXPECT_EQ(e.NewcomerStart(), 0);
  Commit(e, 0);
  EXPECT_EQ(e.NewcomerStart(), 1);
  // It is enough that the round is open.
  e.Contribute(e.participants().at(0), 1, kStart);
  EXPECT_EQ(e.NewcomerStart(), 3);
}

TEST_F(ExchangeTest, WithoutReadyPoolsANewcomerDoesEverythingThatIsNotCommitted) {
  Exchange e = MakeSeeded();
  Commit(e, 0);
  e.participants().at(0).presence = Presence::kLeft;
  // Fragment 1 is pushed at step 3.
  EXPECT_EQ(e.NewcomerStart(), 2);
}

TEST_F(ExchangeTest, ARoundThatIsBeingAppliedIsNotRepeated) {
  Exchange e = MakeSeeded();
  Commit(e, 0);
  e.Contribute(e.participants().at(0), 1, kStart);
  ASSERT_EQ(e.Due(kStart).size(), 1);
  e.participants().at(0).presence = Presence::kLeft;
  // Fragment 0 is pushed at step 5.
  EXPECT_EQ(e.NewcomerStart(), 4);
}

TEST_F(ExchangeTest, NobodyIsAdmittedToTheFinalRoundWhileOthersAreThere) {
  Exchange e = MakeSeeded();
  for (int round = 0; round < 3; ++round) {
    Commit(e, 0);
    Commit(e, 1);
  }
  EXPECT_EQ(e.NewcomerStart(), 11);
  e.Contribute(e.participants().at(0), 0, kStart);
  EXPECT_EQ(e.NewcomerStart(), std::nullopt);
  e.participants().at(0).presence = Presence::kLeft;
  EXPECT_EQ(e.NewcomerStart(), 11);
}

TEST_F(ExchangeTest, CountsRoundsThatAreBeingAppliedTowardsTheCycle) {
  Exchange e = MakeSeeded();
  EXPECT_EQ(e.CompletesCycle(0, 1), std::nullopt);
  e.Contribute(e.participants().at(0), 1, kStart);
  ASSERT_EQ(e.Due(kStart).size(), 1);
  EXPECT_EQ(e.CompletesCycle(0, 1), 1);
  // The final round is not a cycle.
  EXPECT_EQ(e.CompletesCycle(0, 4), std::nullopt);
  EXPECT_FALSE(e.CompletesAll(0, 4));
}

TEST_F(ExchangeTest, RestoresVersionsAndContributions) {
  Exchange e = Make();
  AddReady(e, "a", 0);
  AddReady(e, "b", 0);
  e.Restore(0, 2, "a", {{1, "1"}}, kStart);
  e.Restore(1, 4, "", {}, kStart);
  EXPECT_TRUE(e.Seeded());
  EXPECT_FALSE(e.Complete());
  EXPECT_EQ(e.Judge(&e.participants().at(1), {0, 3, RoundKind::kOuter}), Verdict::kRepeated);
  EXPECT_FALSE(e.fragment(1).round.has_value());
  EXPECT_EQ(e.Judge(&e.participants().at(0), {1, 5, RoundKind::kFinal}), Verdict::kVersionMismatch);
}

TEST_F(ExchangeTest, DoesNotRestoreContributionsThatCouldNotCount) {
  Exchange e = Make();
  AddReady(e, "a", 0);
  // Began at the push of round 3, so it owes the next one first.
  AddReady(e, "b", 9);
  // Was never ready.
  e.participants().Take("c", "1");
  // Another incarnation contributed.
  AddReady(e, "d", 0);
  e.Restore(0, 2, "", {{0, "1"}, {1, "1"}, {2, "1"}, {3, "0"}}, kStart);
  EXPECT_EQ(e.fragment(0).round->contributors(), (Contributors{{0, "1"}}));
}

TEST_F(ExchangeTest, ARestoredSeedCountsWhateverItsStart) {
  Exchange e = Make();
  AddReady(e, "a", 0);
  e.Restore(0, -1, "", {{0, "1"}}, kStart);
  e.Restore(1, -1, "", {}, kStart);
  EXPECT_FALSE(e.Seeded());
  const std::vector<DueRound> due = e.Due(kStart);
  ASSERT_EQ(due.size(), 1u);
  EXPECT_EQ(due[0].round.kind, RoundKind::kSeed);
}

// One was refused, since another pool was asked meanwhile. It is complete in the log all the same.
TEST_F(ExchangeTest, OneOfSeveralRestoredSeedsCounts) {
  Exchange e = Make();
  AddReady(e, "a", 0);
  AddReady(e, "b", 0);
  e.Restore(0, -1, "", {{0, "1"}, {1, "1"}}, kStart);
  EXPECT_EQ(e.fragment(0).round->contributors().size(), 1u);
}

TEST_F(ExchangeTest, ADueRoundNamesTheLostPoolsThatOwedIt) {
  Exchange e = MakeSeeded();
  AddReady(e, "b", 0).presence = Presence::kLost;
  AddReady(e, "c", 0).presence = Presence::kAway;
  // Began after the push of round 1.
  AddReady(e, "d", 1).presence = Presence::kLost;
  e.Contribute(e.participants().at(0), 0, kStart);
  const std::vector<DueRound> due = e.Due(kStart);
  ASSERT_EQ(due.size(), 1u);
  EXPECT_EQ(due[0].missed, std::vector<int>{1});
}

TEST_F(ExchangeTest, ANewIncarnationContributesInsteadOfTheEarlierOne) {
  Exchange e = MakeSeeded();
  AddReady(e, "b", 0);
  e.Contribute(e.participants().at(1), 0, kStart);
  e.Contribute(e.participants().at(1), 1, kStart);
  e.participants().at(1).presence = Presence::kLeft;
  // It begins after the push of fragment 0. So the earlier contribution stays, and counts.
  Participant& again = e.participants().Take("b", "2");
  again.start_step = 1;
  e.PoolRestarted(again);
  EXPECT_EQ(e.fragment(0).round->contributors(), (Contributors{{1, "1"}}));
  EXPECT_TRUE(e.fragment(1).round->contributors().empty());
  EXPECT_EQ(e.Judge(&again, {0, 1, RoundKind::kOuter}), Verdict::kRepeated);
  EXPECT_EQ(e.Judge(&again, {1, 1, RoundKind::kOuter}), Verdict::kAccept);
  e.Contribute(again, 1, kStart);
  e.Contribute(e.participants().at(0), 1, kStart);
  const std::vector<DueRound> due = e.Due(kStart);
  ASSERT_EQ(due.size(), 1u);
  EXPECT_EQ(due[0].contributors, (Contributors{{0, "1"}, {1, "2"}}));
}

TEST_F(ExchangeTest, ARoundThatIsBeingAppliedKeepsWhatAnEarlierIncarnationBrought) {
  Exchange e = MakeSeeded();
  e.Contribute(e.participants().at(0), 1, kStart);
  ASSERT_EQ(e.Due(kStart).size(), 1u);
  e.participants().at(0).presence = Presence::kLeft;
  Participant& again = e.participants().Take("a", "2");
  again.start_step = 0;
  e.PoolRestarted(again);
  EXPECT_EQ(e.fragment(1).round->contributors(), (Contributors{{0, "1"}}));
}

TEST_F(ExchangeTest, ADrainedPoolDelaysNoOther) {
  Exchange e = MakeSeeded();
  AddReady(e, "b", 0).last_step = 2;
  e.PoolsChanged();
  EXPECT_TRUE(e.Due(kStart).empty());
  e.Contribute(e.participants().at(0), 0, kStart);
  EXPECT_TRUE(e.Due(kStart).empty()) << "its push is at step 1, which b still does";
  e.Contribute(e.participants().at(0), 1, kStart);
  const std::vector<DueRound> due = e.Due(kStart);
  ASSERT_EQ(due.size(), 1u);
  EXPECT_EQ(due[0].round.fragment, 1);
  EXPECT_EQ(e.participants().at(1).presence, Presence::kLive);
}

TEST_F(ExchangeTest, AQuorumGoesOnWithoutALatePoolAndNamesIt) {
  using Calls = std::vector<RoundId>;
  Exchange e = MakeSeeded({.quorum = 1, .grace = absl::Seconds(5)});
  AddReady(e, "b", 0);
  EXPECT_TRUE(e.Due(kStart).empty());
  EXPECT_EQ(e.NextDue(), absl::InfiniteFuture());
  e.Contribute(e.participants().at(0), 0, kStart);
  EXPECT_TRUE(e.Due(kStart).empty());
  EXPECT_EQ(e.TakeCalls(), (Calls{{0, 1}}));
  EXPECT_EQ(e.TakeCalls(), Calls());
  EXPECT_EQ(e.NextDue(), kStart + absl::Seconds(5));
  const std::vector<DueRound> due = e.Due(e.NextDue());
  ASSERT_EQ(due.size(), 1u);
  EXPECT_EQ(due[0].late, std::vector<int>{1});
  EXPECT_TRUE(due[0].missed.empty());
  EXPECT_EQ(e.NextDue(), absl::InfiniteFuture());
  EXPECT_EQ(e.Judge(&e.participants().at(1), {0, 1, RoundKind::kOuter}), Verdict::kRoundClosed);
}

TEST_F(ExchangeTest, ALostPoolKeepsItsPlaceInAQuorum) {
  Exchange e = MakeSeeded({.quorum = 1, .grace = absl::Seconds(5)});
  AddReady(e, "b", 0).presence = Presence::kLost;
  e.Contribute(e.participants().at(0), 0, kStart);
  const std::vector<DueRound> due = e.Due(kStart);
  ASSERT_EQ(due.size(), 1u);
  EXPECT_TRUE(due[0].missed.empty() && due[0].late.empty());
}

TEST_F(ExchangeTest, ANewcomerBeginsBeforeARoundThatLacksTheQuorum) {
  Exchange e = MakeSeeded({.quorum = 2, .grace = absl::Seconds(5)});
  AddReady(e, "b", 0);
  e.Contribute(e.participants().at(0), 1, kStart);
  EXPECT_EQ(e.NewcomerStart(), 0);
  e.Contribute(e.participants().at(1), 1, kStart);
  EXPECT_EQ(e.NewcomerStart(), 3);
}

}  // namespace
}  // namespace longhaul

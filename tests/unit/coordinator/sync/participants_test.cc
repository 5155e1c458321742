#include "coordinator/sync/participants.h"

#include <gtest/gtest.h>

namespace longhaul {
namespace {

TEST(ParticipantsTest, APlaceBelongsToAPoolsNameAndItsOrdinalIsGivenOnce) {
  Participants p;
  EXPECT_EQ(p.Take("a", "1").ordinal, 0);
  p.at(0).presence = Presence::kLeft;
  EXPECT_EQ(p.Take("b", "1").ordinal, 1);
  EXPECT_EQ(p.Take("a", "2").ordinal, 0);
  EXPECT_EQ(p.all().size(), 2u);
  EXPECT_EQ(p.Find("a")->incarnation, "2");
  EXPECT_EQ(p.Find("a", "1"), nullptr);
  EXPECT_EQ(p.Find("a", "2"), &p.at(0));
  EXPECT_EQ(p.Find("c"), nullptr);
}

TEST(ParticipantsTest, AnotherIncarnationBeginsAgain) {
  Participants p;
  Participant& a = p.Take("a", "1");
  a.start_step = 3;
  a.inner_step = a.last_step.emplace(9);
  a.finished = true;
  a.return_until = absl::UnixEpoch();
  a.presence = Presence::kAway;
  p.Take("a", "2");
  EXPECT_TRUE(a.live());
  EXPECT_FALSE(a.ready());
  EXPECT_EQ(a.inner_step, 0);
  EXPECT_FALSE(a.last_step.has_value() || a.finished);
  EXPECT_EQ(a.return_until, absl::InfinitePast());
}

TEST(ParticipantsTest, AnIncarnationBeginsOnce) {
  Participants p;
  Participant& a = p.Take("a", "1");
  a.presence = Presence::kLeft;
  EXPECT_FALSE(p.Take("a", "1").spent);
  a.start_step = 3;
  for (int again = 0; again < 2; ++again) {
    a.presence = Presence::kLeft;
    p.Take("a", "1");
    EXPECT_TRUE(a.spent && a.live());
    EXPECT_FALSE(a.ready());
    EXPECT_EQ(p.Find("a", "1"), nullptr);
    EXPECT_EQ(p.Find("a"), &a);
  }
  a.presence = Presence::kLeft;
  EXPECT_FALSE(p.Take("a", "2").spent);
  EXPECT_EQ(p.Find("a", "2"), &a);
}

TEST(ParticipantsTest, ReferencesStayValid) {
  Participants p;
  const Participant& first = p.Take("a", "1");
  for (int i = 0; i < 1000; ++i) p.Take(std::to_string(i), "1");
  EXPECT_EQ(&first, &p.at(0));
}

TEST(ParticipantsTest, ReadyMeansLiveWithAStart) {
  Participants p;
  p.Take("a", "1");
  p.Take("b", "1").start_step = 0;
  EXPECT_EQ(p.live_count(), 2);
  EXPECT_EQ(p.ready_count(), 1);
  p.at(1).presence = Presence::kLost;
  EXPECT_EQ(p.ready_count(), 0);
  EXPECT_FALSE(p.at(1).gone());
}

TEST(ParticipantsTest, APoolThatIsAwayHasAPlaceButIsNotLive) {
  Participants p;
  Participant& a = p.Take("a", "1");
  a.start_step = 0;
  for (const Presence presence :
       {Presence::kLive, Presence::kLost, Presence::kAway, Presence::kMissed, Presence::kLeft}) {
    a.presence = presence;
    EXPECT_EQ(p.live_count(), presence == Presence::kLive);
    EXPECT_EQ(p.present_count(), presence == Presence::kLive || presence == Presence::kAway);
    EXPECT_EQ(a.gone(), presence == Presence::kMissed || presence == Presence::kLeft);
  }
}

TEST(ParticipantsTest, OwesThePushesAfterItsStart) {
  Participants p;
  Participant& a = p.Take("a", "1");
  EXPECT_FALSE(a.Owes(100));
  a.start_step = 7;
  EXPECT_FALSE(a.Owes(7));
  EXPECT_TRUE(a.Owes(8));
}

TEST(ParticipantsTest, ADrainingPoolIsAwaitedUpToItsLastStep) {
  Participants p;
  Participant& a = p.Take("a", "1");
  a.start_step = 0;
  EXPECT_TRUE(a.Awaited(8));
  a.last_step = 7;
  EXPECT_TRUE(a.Awaited(7));
  EXPECT_FALSE(a.Awaited(8));
  EXPECT_TRUE(a.Owes(8)) << "what it sends all the same counts";
}

TEST(ParticipantsTest, RestoredPlacesKeepTheirOrdinals) {
  Participants p;
  p.Restore({.pool = "b", .incarnation = "1", .ordinal = 0, .presence = Presence::kMissed});
  p.Restore({.pool = "a", .incarnation = "3", .ordinal = 1, .start_step = 4});
  EXPECT_TRUE(p.Find("a", "3")->ready());
  EXPECT_EQ(p.Take("c", "1").ordinal, 2);
  EXPECT_EQ(p.Take("b", "2").ordinal, 0);
}

TEST(ParticipantsDeathTest, ChecksForOurOwnMistakes) {
  Participants p;
  p.Take("a", "1");
  EXPECT_DEATH(p.Take("a", "2"), "one place");
  EXPECT_DEATH(p.Restore({.pool = "b", .ordinal = 5}), "no gaps");
  EXPECT_DEATH(p.Restore({.pool = "a", .ordinal = 1}), "one place");
}

}  // namespace
}  // namespace longhaul

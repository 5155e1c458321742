#include "coordinator/sync/participants.h"

#include <gtest/gtest.h>

namespace longhaul {
namespace {

TEST(ParticipantsTest, OrdinalsFollowTheOrderAndAreNotGivenTwice) {
  Participants p;
  EXPECT_EQ(p.Add("a", "1").ordinal, 0);
  p.at(0).presence = Presence::kLeft;
  EXPECT_EQ(p.Add("a", "2").ordinal, 1);
  EXPECT_EQ(p.Add("a", "1").ordinal, 2);
  EXPECT_EQ(p.Find("a", "1")->ordinal, 2);
  EXPECT_EQ(p.Find("a", "3"), nullptr);
}

TEST(ParticipantsTest, ReadyMeansLiveWithAStart) {
  Participants p;
  p.Add("a", "1");
  p.Add("b", "1").start_step = 0;
  EXPECT_EQ(p.live_count(), 2);
  EXPECT_EQ(p.ready_count(), 1);
  p.at(1).presence = Presence::kLost;
  EXPECT_EQ(p.ready_count(), 0);
  EXPECT_FALSE(p.at(1).gone());
}

TEST(ParticipantsTest, OwesThePushesAfterItsStart) {
  Participants p;
  Participant& a = p.Add("a", "1");
  EXPECT_FALSE(a.Owes(100));
  a.start_step = 7;
  EXPECT_FALSE(a.Owes(7));
  EXPECT_TRUE(a.Owes(8));
}

}  // namespace
}  // namespace longhaul

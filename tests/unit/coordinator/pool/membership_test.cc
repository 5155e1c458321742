#include "coordinator/pool/membership.h"

#include <gtest/gtest.h>

namespace longhaul {
namespace {

constexpr absl::Duration kLease = absl::Seconds(10);
const absl::Time kStart = absl::UnixEpoch();

Membership Make(int members_max = 8) {
  return Membership({.lease = kLease, .members_max = members_max, .lost_max = members_max});
}

TEST(MembershipTest, GrantsALeaseAndExtendsItForTheSameIncarnation) {
  Membership m = Make();
  ASSERT_TRUE(m.Join("a", "1", {.ranks = 4}, kStart).ok());
  EXPECT_EQ(m.Find("a")->lease_end, kStart + kLease);
  EXPECT_EQ(m.Find("a")->traits.ranks, 4);
  ASSERT_TRUE(m.Renew("a", "1", kStart + absl::Seconds(9)).ok());
  ASSERT_TRUE(m.Join("a", "1", {.ranks = 4}, kStart + absl::Seconds(12)).ok());
  EXPECT_EQ(m.next_expiry(), kStart + absl::Seconds(22));
}

TEST(MembershipTest, RefusesAnotherIncarnationWhileTheFirstIsLive) {
  Membership m = Make();
  ASSERT_TRUE(m.Join("a", "1", {.ranks = 1}, kStart).ok());
  EXPECT_TRUE(absl::IsAlreadyExists(m.Join("a", "2", {.ranks = 1}, kStart)));
  EXPECT_TRUE(absl::IsAborted(m.Renew("a", "2", kStart)));
  m.Expire(kStart + kLease);
  EXPECT_TRUE(m.Join("a", "2", {.ranks = 1}, kStart + kLease).ok());
  EXPECT_TRUE(absl::IsAborted(m.Renew("a", "1", kStart + kLease)));
}

TEST(MembershipTest, RefusesRenewalAfterExpiry) {
  Membership m = Make();
  ASSERT_TRUE(m.Join("a", "1", {.ranks = 1}, kStart).ok());
  EXPECT_EQ(m.Expire(kStart + kLease - absl::Nanoseconds(1)).size(), 0);
  EXPECT_EQ(m.Expire(kStart + kLease).size(), 1);
  EXPECT_TRUE(absl::IsNotFound(m.Renew("a", "1", kStart + kLease)));
  EXPECT_TRUE(absl::IsNotFound(m.Renew("z", "1", kStart)));
  EXPECT_FALSE(m.IsLive("a", "1"));
}

TEST(MembershipTest, ExpiresTheEarliestFirst) {
  Membership m = Make();
  ASSERT_TRUE(m.Join("b", "1", {.ranks = 1}, kStart).ok());
  ASSERT_TRUE(m.Join("a", "1", {.ranks = 1}, kStart + absl::Seconds(1)).ok());
  ASSERT_TRUE(m.Renew("b", "1", kStart + absl::Seconds(2)).ok());
  ASSERT_TRUE(m.Join("c", "1", {.ranks = 1}, kStart + absl::Seconds(3)).ok());
  const auto expired = m.Expire(kStart + absl::Seconds(12));
  ASSERT_EQ(expired.size(), 2);
  EXPECT_EQ(expired[0].pool, "a");
  EXPECT_EQ(expired[1].pool, "b");
}

TEST(MembershipTest, APoolThatComesAfterARestartMustJoin) {
  Membership m = Make();
  ASSERT_TRUE(m.Restore("a", "group", kStart));
  EXPECT_TRUE(absl::IsNotFound(m.Renew("a", "agent", kStart)));
}

TEST(MembershipTest, OnlyTheHolderOfALeaseCanLeave) {
  Membership m = Make();
  ASSERT_TRUE(m.Join("a", "1", {.ranks = 1}, kStart).ok());
  EXPECT_FALSE(m.Leave("a", "2"));
  EXPECT_TRUE(m.Leave("a", "1"));
  EXPECT_FALSE(m.Leave("a", "1"));
  EXPECT_TRUE(m.Join("a", "2", {.ranks = 1}, kStart).ok());
}

TEST(MembershipTest, RefusesMoreThanItsMost) {
  Membership m = Make(/*members_max=*/2);
  ASSERT_TRUE(m.Join("a", "1", {.ranks = 1}, kStart).ok());
  ASSERT_TRUE(m.Join("b", "1", {.ranks = 1}, kStart).ok());
  EXPECT_TRUE(absl::IsResourceExhausted(m.Join("c", "1", {.ranks = 1}, kStart)));
  EXPECT_TRUE(m.Join("b", "1", {.ranks = 1}, kStart).ok());
}

TEST(MembershipTest, RemembersLostPoolsUpToABound) {
  Membership m = Make(/*members_max=*/2);
  for (int i = 0; i < 5; ++i) {
    const absl::Time now = kStart + i * kLease;
    m.Expire(now);
    ASSERT_TRUE(m.Join(std::string(1, static_cast<char>('a' + i)), "1", {.ranks = 1}, now).ok());
  }
  EXPECT_EQ(m.Find("a"), nullptr);
  EXPECT_EQ(m.Find("b"), nullptr);
  ASSERT_NE(m.Find("c"), nullptr);
  EXPECT_FALSE(m.Find("c")->live);
  EXPECT_TRUE(m.Find("e")->live);
}

TEST(MembershipTest, ARestoredPoolIsLiveButMustJoinAgain) {
  Membership m = Make();
  EXPECT_TRUE(m.Restore("a", "1", kStart));
  EXPECT_FALSE(m.Restore("a", "2", kStart));
  EXPECT_TRUE(m.IsLive("a", "1"));
  EXPECT_TRUE(absl::IsNotFound(m.Renew("a", "1", kStart)));
  EXPECT_TRUE(absl::IsAlreadyExists(m.Join("a", "2", {.ranks = 1}, kStart)));
  EXPECT_TRUE(m.Join("a", "1", {.ranks = 1}, kStart + absl::Seconds(1)).ok());
  EXPECT_EQ(m.next_expiry(), kStart + absl::Seconds(11));
}

TEST(MembershipTest, QueuesForWorkInTheOrderOfJoining) {
  Membership m = Make();
  ASSERT_TRUE(m.Join("b", "1", {.ranks = 1}, kStart).ok());
  ASSERT_TRUE(m.Join("a", "1", {.ranks = 1}, kStart).ok());
  EXPECT_LT(m.Find("b")->turn, m.Find("a")->turn);
  m.Requeue("b");
  EXPECT_LT(m.Find("a")->turn, m.Find("b")->turn);
}

TEST(MembershipTest, KnowsTheNewestTraitsOfAPool) {
  Membership m = Make();
  ASSERT_TRUE(m.Join("a", "1", {.ranks = 4}, kStart).ok());
  ASSERT_TRUE(m.Join("a", "1", {.ranks = 2, .cuda = true, .capabilities = {"x"}}, kStart).ok());
  EXPECT_EQ(m.Find("a")->traits.ranks, 2);
  EXPECT_TRUE(m.Find("a")->traits.cuda);
  EXPECT_TRUE(m.Find("a")->traits.capabilities.contains("x"));
}

TEST(MembershipTest, ARestoredPoolHasNoTraitsUntilItJoins) {
  Membership m = Make();
  ASSERT_TRUE(m.Restore("a", "1", kStart));
  EXPECT_FALSE(m.Find("a")->joined);
  EXPECT_EQ(m.Find("a")->traits.ranks, 0);
  ASSERT_TRUE(m.Join("a", "1", {.ranks = 3}, kStart).ok());
  EXPECT_TRUE(m.Find("a")->joined);
  EXPECT_EQ(m.Find("a")->traits.ranks, 3);
}

TEST(MembershipTest, APoolDrainsUntilItJoinsAgain) {
  Membership m = Make();
  // No such pool.
  m.Drain("a");
  ASSERT_TRUE(m.Join("a", "1", {.ranks = 1}, kStart).ok());
  m.Drain("a");
  ASSERT_TRUE(m.Renew("a", "1", kStart).ok());
  EXPECT_TRUE(m.Find("a")->draining);
  ASSERT_TRUE(m.Join("a", "1", {.ranks = 1}, kStart).ok());
  EXPECT_FALSE(m.Find("a")->draining);
}

}  // namespace
}  // namespace longhaul

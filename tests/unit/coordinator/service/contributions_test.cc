#include "coordinator/service/contributions.h"

#include <gtest/gtest.h>

namespace longhaul::coordinator {
namespace {

using Blocks = std::vector<BlockRange>;

class ContributionsTest : public ::testing::Test {
 protected:
  // Reserves and confirms.
  Reservation Bring(const ContributionKey& key, const Blocks& blocks, uint64_t shard) {
    const Reservation reservation = contributions_.Reserve(key, blocks);
    if (reservation == Reservation::kTaken) contributions_.Confirm(key, blocks, {shard});
    return reservation;
  }

  Contributions contributions_{{10, 4}};
  const ContributionKey key_{0, 1, "site-a", "incarnation"};
};

TEST_F(ContributionsTest, IsWholeWhenEveryBlockIsHere) {
  EXPECT_EQ(Bring(key_, {{0, 2}, {5, 5}}, 1), Reservation::kTaken);
  EXPECT_FALSE(contributions_.Whole(key_));
  EXPECT_TRUE(contributions_.Shards(key_).empty());
  EXPECT_EQ(Bring(key_, {{2, 3}}, 2), Reservation::kTaken);
  EXPECT_TRUE(contributions_.Whole(key_));
  ASSERT_EQ(contributions_.Shards(key_).size(), 2u);
  EXPECT_EQ(contributions_.Shards(key_)[1].sequence, 2u);
}

TEST_F(ContributionsTest, RepeatedBlocksCountOnce) {
  Bring(key_, {{0, 4}}, 1);
  EXPECT_EQ(Bring(key_, {{0, 4}}, 2), Reservation::kRepeated);
  EXPECT_EQ(Bring(key_, {{1, 2}}, 3), Reservation::kRepeated);
  Bring(key_, {{4, 6}}, 4);
  EXPECT_EQ(Bring(key_, {{2, 5}}, 5), Reservation::kRepeated);
  EXPECT_EQ(contributions_.Shards(key_).size(), 2u);
}

TEST_F(ContributionsTest, PartsOfWhatIsHereAreRefused) {
  Bring(key_, {{2, 3}}, 1);
  EXPECT_EQ(Bring(key_, {{0, 3}}, 2), Reservation::kOverlap);
  EXPECT_EQ(Bring(key_, {{4, 2}}, 2), Reservation::kOverlap);
  EXPECT_EQ(Bring(key_, {{0, 10}}, 2), Reservation::kOverlap);
  EXPECT_EQ(Bring(key_, {{0, 2}, {5, 5}}, 2), Reservation::kTaken);
}

TEST_F(ContributionsTest, BlocksOnTheirWayAreBusyUntilReleased) {
  ASSERT_EQ(contributions_.Reserve(key_, {{0, 10}}), Reservation::kTaken);
  EXPECT_EQ(contributions_.Reserve(key_, {{9, 1}}), Reservation::kBusy);
  EXPECT_FALSE(contributions_.Whole(key_));
  contributions_.Release(key_, {{0, 10}});
  EXPECT_EQ(Bring(key_, {{0, 10}}, 1), Reservation::kTaken);
  EXPECT_TRUE(contributions_.Whole(key_));
}

TEST_F(ContributionsTest, IncarnationsPoolsVersionsAndFragmentsAreApart) {
  Bring(key_, {{0, 10}}, 1);
  EXPECT_FALSE(contributions_.Whole({0, 1, "site-a", "another"}));
  EXPECT_FALSE(contributions_.Whole({0, 1, "site-b", "incarnation"}));
  EXPECT_FALSE(contributions_.Whole({0, 2, "site-a", "incarnation"}));
  EXPECT_EQ(Bring({1, 1, "site-a", "incarnation"}, {{0, 4}}, 2), Reservation::kTaken);
}

TEST_F(ContributionsTest, ForgetsRoundsUpToAVersion) {
  const ContributionKey next{0, 2, "site-a", "incarnation"}, other{1, 1, "site-a", "incarnation"};
  Bring(key_, {{0, 10}}, 1);
  Bring(next, {{0, 10}}, 2);
  Bring(other, {{0, 4}}, 3);
  contributions_.Forget(0, 1);
  EXPECT_FALSE(contributions_.Whole(key_));
  EXPECT_TRUE(contributions_.Whole(next));
  EXPECT_TRUE(contributions_.Whole(other));
}

TEST_F(ContributionsTest, ALateConfirmationOfAForgottenRoundChangesNothing) {
  ASSERT_EQ(contributions_.Reserve(key_, {{0, 10}}), Reservation::kTaken);
  contributions_.Forget(0, 1);
  contributions_.Confirm(key_, {{0, 10}}, {1});
  contributions_.Release(key_, {{0, 10}});
  EXPECT_FALSE(contributions_.Whole(key_));
}

}  // namespace
}  // namespace longhaul::coordinator

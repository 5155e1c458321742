#include "coordinator/fragments/contributions.h"

#include <gtest/gtest.h>

#include <thread>

namespace longhaul::coordinator {
namespace {

using Blocks = std::vector<BlockRange>;

class ContributionsTest : public ::testing::Test {
 protected:
  // Reserves and confirms the blocks. Returns those that had not arrived before.
  Blocks Bring(const ContributionKey& key, const Blocks& blocks, uint64_t sequence) {
    Blocks taken = contributions_.Reserve(key, blocks);
    if (!taken.empty()) contributions_.Confirm(key, taken, {.sequence = sequence});
    return taken;
  }

  Contributions contributions_{{10, 4}};
  const ContributionKey key_{{0, 1}, "site-a", "incarnation"};
};

TEST_F(ContributionsTest, IsWholeWhenEveryBlockIsHere) {
  EXPECT_EQ(Bring(key_, {{0, 2}, {5, 5}}, 1), (Blocks{{0, 2}, {5, 5}}));
  EXPECT_FALSE(contributions_.Whole(key_));
  EXPECT_TRUE(contributions_.Parts(key_).empty());
  EXPECT_EQ(contributions_.Blocks(key_), (Blocks{{0, 2}, {5, 5}}));
  EXPECT_EQ(Bring(key_, {{2, 3}}, 2), (Blocks{{2, 3}}));
  EXPECT_TRUE(contributions_.Whole(key_));
  EXPECT_EQ(contributions_.Blocks(key_), (Blocks{{0, 10}}));
  ASSERT_EQ(contributions_.Parts(key_).size(), 2u);
  EXPECT_EQ(contributions_.Parts(key_)[1].sequence, 2u);
}

TEST_F(ContributionsTest, RepeatedBlocksCountOnce) {
  Bring(key_, {{0, 4}}, 1);
  EXPECT_EQ(Bring(key_, {{0, 4}}, 2), Blocks());
  EXPECT_EQ(Bring(key_, {{1, 2}}, 3), Blocks());
  Bring(key_, {{4, 6}}, 4);
  EXPECT_EQ(Bring(key_, {{2, 5}}, 5), Blocks());
  EXPECT_EQ(contributions_.Parts(key_).size(), 2u);
}

TEST_F(ContributionsTest, TakesOnlyTheMissingBlocks) {
  Bring(key_, {{2, 3}}, 1);
  EXPECT_EQ(Bring(key_, {{0, 3}, {4, 3}}, 2), (Blocks{{0, 2}, {5, 2}}));
  EXPECT_EQ(Bring(key_, {{0, 10}}, 3), (Blocks{{7, 3}}));
  EXPECT_TRUE(contributions_.Whole(key_));
}

TEST_F(ContributionsTest, WaitsForBlocksThatAnotherStreamReserved) {
  ASSERT_EQ(contributions_.Reserve(key_, {{0, 6}}), (Blocks{{0, 6}}));
  Blocks taken;
  std::jthread other([&] { taken = contributions_.Reserve(key_, {{5, 5}}); });
  EXPECT_FALSE(contributions_.Whole(key_));
  contributions_.Confirm(key_, {{0, 6}}, {.sequence = 1});
  other.join();
  EXPECT_EQ(taken, (Blocks{{6, 4}}));
}

TEST_F(ContributionsTest, ReleasedBlocksAreTakenAgain) {
  ASSERT_EQ(contributions_.Reserve(key_, {{0, 10}}), (Blocks{{0, 10}}));
  contributions_.Release(key_, {{0, 10}});
  EXPECT_EQ(contributions_.Blocks(key_), Blocks());
  EXPECT_EQ(Bring(key_, {{0, 10}}, 1), (Blocks{{0, 10}}));
  EXPECT_TRUE(contributions_.Whole(key_));
}

TEST_F(ContributionsTest, BlocksOfAWithdrawnPartAreTakenAgain) {
  const auto bring = [&](const BlockRange& blocks, uint64_t sequence) {
    ASSERT_EQ(contributions_.Reserve(key_, {blocks}), Blocks{blocks});
    contributions_.Confirm(
        key_, {blocks},
        {.info = {.segments = {{blocks.first, static_cast<int32_t>(128 * blocks.count)}}},
         .sequence = sequence});
  };
  bring({0, 4}, 1);
  bring({4, 6}, 2);
  ASSERT_TRUE(contributions_.Whole(key_));
  contributions_.Withdraw(key_, 3);
  EXPECT_TRUE(contributions_.Whole(key_)) << "it has no such part";
  contributions_.Withdraw(key_, 1);
  EXPECT_FALSE(contributions_.Whole(key_));
  EXPECT_EQ(contributions_.Blocks(key_), (Blocks{{4, 6}}));
  bring({0, 4}, 3);
  ASSERT_EQ(contributions_.Parts(key_).size(), 2u);
  EXPECT_EQ(contributions_.Parts(key_)[1].sequence, 3u);
  contributions_.Withdraw(key_, 2);
  contributions_.Withdraw(key_, 3);
  EXPECT_TRUE(contributions_.Blocks(key_).empty());
  contributions_.Withdraw(key_, 3);
}

TEST_F(ContributionsTest, ListsTheWholeOnesOfARound) {
  Bring(key_, {{0, 10}}, 1);
  Bring({{0, 1}, "site-b", "incarnation"}, {{0, 9}}, 2);
  Bring({{0, 2}, "site-c", "incarnation"}, {{0, 10}}, 3);
  const auto whole = contributions_.WholeOf(0, 1);
  ASSERT_EQ(whole.size(), 1u);
  EXPECT_EQ(whole[0].pool, "site-a");
}

TEST_F(ContributionsTest, IncarnationsPoolsVersionsAndFragmentsAreSeparate) {
  Bring(key_, {{0, 10}}, 1);
  EXPECT_FALSE(contributions_.Whole({{0, 1}, "site-a", "another"}));
  EXPECT_FALSE(contributions_.Whole({{0, 1}, "site-b", "incarnation"}));
  EXPECT_FALSE(contributions_.Whole({{0, 2}, "site-a", "incarnation"}));
  EXPECT_EQ(Bring({{1, 1}, "site-a", "incarnation"}, {{0, 4}}, 2), (Blocks{{0, 4}}));
}

TEST_F(ContributionsTest, ForgetsRoundsUpToAVersion) {
  const ContributionKey next{{0, 2}, "site-a", "incarnation"},
      other{{1, 1}, "site-a", "incarnation"};
  Bring(key_, {{0, 10}}, 1);
  Bring(next, {{0, 10}}, 2);
  Bring(other, {{0, 4}}, 3);
  contributions_.Forget({0, 1});
  EXPECT_FALSE(contributions_.Whole(key_));
  EXPECT_TRUE(contributions_.Whole(next));
  EXPECT_TRUE(contributions_.Whole(other));
}

TEST_F(ContributionsTest, ALateConfirmationOfAForgottenRoundChangesNothing) {
  ASSERT_EQ(contributions_.Reserve(key_, {{0, 10}}), (Blocks{{0, 10}}));
  contributions_.Forget({0, 1});
  contributions_.Confirm(key_, {{0, 10}}, {.sequence = 1});
  contributions_.Release(key_, {{0, 10}});
  EXPECT_FALSE(contributions_.Whole(key_));
}

}  // namespace
}  // namespace longhaul::coordinator

#include "worker/rendezvous/rendezvous_round.h"

#include "gtest/gtest.h"

namespace longhaul {
namespace {

TEST(RendezvousRoundTest, IsCompleteWithTheLastRank) {
  RendezvousRound round(5, 2);
  EXPECT_TRUE(round.Join(10, {5, 2, 1, "b"}).ok());
  EXPECT_FALSE(round.complete());
  EXPECT_TRUE(round.Join(11, {5, 2, 0, "a"}).ok());
  ASSERT_TRUE(round.complete());
  EXPECT_EQ(round.Blobs(), (std::vector<std::string>{"a", "b"}));
}

TEST(RendezvousRoundTest, RefusesOtherGenerationsAndSizesAndRanksOutOfRange) {
  RendezvousRound round(5, 2);
  EXPECT_TRUE(absl::IsNotFound(round.Join(1, {4, 2, 0, ""})));
  EXPECT_TRUE(absl::IsNotFound(round.Join(1, {6, 2, 0, ""})));
  EXPECT_TRUE(absl::IsInvalidArgument(round.Join(1, {5, 2, 2, ""})));
  EXPECT_TRUE(absl::IsInvalidArgument(round.Join(1, {5, 2, -1, ""})));
  EXPECT_TRUE(absl::IsInvalidArgument(round.Join(1, {5, 3, 0, ""})))
      << "of a group of another size";
}

TEST(RendezvousRoundTest, ARankComesOnceUntilItsCallerIsGone) {
  RendezvousRound round(5, 2);
  EXPECT_TRUE(round.Join(1, {5, 2, 0, "old"}).ok());
  EXPECT_TRUE(absl::IsAlreadyExists(round.Join(2, {5, 2, 0, "new"})));
  round.Leave(2);
  EXPECT_TRUE(absl::IsAlreadyExists(round.Join(3, {5, 2, 0, "new"})));
  round.Leave(1);
  EXPECT_TRUE(round.Join(4, {5, 2, 0, "new"}).ok());
}

TEST(RendezvousRoundTest, IsOverOnceComplete) {
  RendezvousRound round(5, 1);
  EXPECT_TRUE(round.Join(1, {5, 1, 0, "a"}).ok());
  round.Leave(1);
  EXPECT_TRUE(absl::IsAborted(round.Join(2, {5, 1, 0, "b"})));
  EXPECT_EQ(round.Blobs(), std::vector<std::string>{"a"});
}

}  // namespace
}  // namespace longhaul

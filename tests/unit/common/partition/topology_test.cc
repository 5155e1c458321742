#include "common/partition/topology.h"

#include <algorithm>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace longhaul {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(TopologyTest, NumbersRanksNodeByNode) {
  const auto topology = Topology::Make({3, 1, 2});
  ASSERT_TRUE(topology.ok());
  EXPECT_EQ(topology->ranks(), 6);
  EXPECT_EQ(topology->nodes(), 3);
  EXPECT_EQ(topology->node(3), 1);
  EXPECT_EQ(topology->local_rank(2), 2);
  EXPECT_EQ(topology->local_rank(5), 1);
  EXPECT_THAT(topology->Group(Level::kNode, 1), ElementsAre(0, 1, 2));
  EXPECT_THAT(topology->Group(Level::kNode, 3), ElementsAre(3));
  EXPECT_THAT(topology->Group(Level::kPool, 3), ElementsAre(0, 1, 2, 3, 4, 5));
}

constexpr Level kLevels[] = {Level::kRank, Level::kPair, Level::kNode, Level::kPool};

TEST(TopologyTest, GroupsDivideThePool) {
  const auto topology = Topology::Make({4, 4, 4});
  ASSERT_TRUE(topology.ok());
  EXPECT_THAT(topology->Group(Level::kPair, 5), ElementsAre(4, 5));
  for (const Level level : kLevels) {
    ASSERT_TRUE(topology->CheckEven(level).ok());
    for (int a = 0; a < 12; ++a) {
      const std::vector<int> group = topology->Group(level, a);
      for (const int b : group) EXPECT_EQ(topology->Group(level, b), group);
      for (int b = 0; b < 12; ++b) {
        const bool together = std::find(group.begin(), group.end(), b) != group.end();
        EXPECT_EQ(topology->Nearest(a, b) <= level, together) << LevelName(level);
      }
    }
  }
}

// A group holds everything once. What a rank holds of a level is part of what it holds of the next
// narrower level.
TEST(TopologyTest, PiecesNest) {
  for (const std::vector<int>& nodes : {std::vector<int>{4, 4, 4}, {2, 2}, {6}, {1, 1}}) {
    const auto topology = Topology::Make(nodes);
    ASSERT_TRUE(topology.ok());
    for (int rank = 0; rank < topology->ranks(); ++rank) {
      PieceRange outer{0, topology->ranks()};
      for (const Level level : kLevels) {
        if (!topology->CheckEven(level).ok()) continue;
        const PieceRange held = topology->Pieces(level, rank);
        EXPECT_GE(held.first, outer.first) << LevelName(level);
        EXPECT_LE(held.end(), outer.end()) << LevelName(level);
        outer = held;
        std::vector<int> seen(topology->ranks());
        for (const int other : topology->Group(level, rank)) {
          const PieceRange part = topology->Pieces(level, other);
          for (int piece = part.first; piece < part.end(); ++piece) ++seen[piece];
        }
        EXPECT_EQ(seen, std::vector<int>(topology->ranks(), 1)) << LevelName(level);
      }
      EXPECT_EQ(outer, (PieceRange{topology->piece(rank), 1}));
    }
  }
  const auto topology = Topology::Make({2, 2});
  EXPECT_EQ(topology->piece(1), 2) << "local 1 of node 0";
  EXPECT_EQ(Topology::Make({2, 1})->piece(2), 2) << "nothing nests where nodes differ";
}

TEST(TopologyTest, SaysWhichLevelsAPoolDoesNotHave) {
  const auto uneven = Topology::Make({2, 3});
  ASSERT_TRUE(uneven.ok());
  EXPECT_TRUE(uneven->CheckEven(Level::kPool).ok());
  EXPECT_THAT(uneven->CheckEven(Level::kNode).message(),
              HasSubstr("node 0 has 2 ranks, node 1 has 3"));
  EXPECT_THAT(uneven->CheckEven(Level::kPair).message(), HasSubstr("node 1 has 3 ranks"));
  EXPECT_EQ(Topology::Make({1})->CheckEven(Level::kPair).message(),
            "node 0 has 1 rank, which is not a pair");
  EXPECT_THAT(Topology::Make({1, 2})->CheckEven(Level::kNode).message(),
              HasSubstr("node 0 has 1 rank, node 1 has 2"));
  EXPECT_TRUE(absl::IsInvalidArgument(Topology::Make({}).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(Topology::Make({2, 0}).status()));
}

}  // namespace
}  // namespace longhaul

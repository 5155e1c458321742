#include "worker/collective/topology.h"

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

TEST(TopologyTest, LevelsAreNested) {
  const auto topology = Topology::Make({4, 4});
  ASSERT_TRUE(topology.ok());
  EXPECT_THAT(topology->Group(Level::kPair, 5), ElementsAre(4, 5));
  EXPECT_THAT(topology->Across(Level::kPair, 5), ElementsAre(1, 3, 5, 7));
  EXPECT_THAT(topology->Across(Level::kNode, 5), ElementsAre(1, 5));
  EXPECT_THAT(topology->Across(Level::kPool, 5), ElementsAre(5));
}

// Whatever the level: the groups, and the ranks across them, each hold every rank once.
TEST(TopologyTest, GroupsDivideThePool) {
  const auto topology = Topology::Make({4, 4, 4});
  ASSERT_TRUE(topology.ok());
  for (const Level level : {Level::kPair, Level::kNode, Level::kPool}) {
    ASSERT_TRUE(topology->CheckEven(level).ok());
    for (int a = 0; a < 12; ++a) {
      const std::vector<int> group = topology->Group(level, a), across = topology->Across(level, a);
      EXPECT_EQ(group.size() * across.size(), 12u) << LevelName(level);
      for (const int b : group) EXPECT_EQ(topology->Group(level, b), group);
      for (const int b : across) EXPECT_EQ(topology->Across(level, b), across);
    }
  }
}

TEST(TopologyTest, SaysWhichLevelsAPoolDoesNotHave) {
  const auto uneven = Topology::Make({2, 3});
  ASSERT_TRUE(uneven.ok());
  EXPECT_TRUE(uneven->CheckEven(Level::kPool).ok());
  EXPECT_THAT(uneven->CheckEven(Level::kNode).message(),
              HasSubstr("node 0 has 2 ranks, node 1 has 3"));
  EXPECT_THAT(uneven->CheckEven(Level::kPair).message(), HasSubstr("node 1 has 3 ranks"));
  EXPECT_TRUE(absl::IsInvalidArgument(Topology::Make({}).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(Topology::Make({2, 0}).status()));
}

}  // namespace
}  // namespace longhaul

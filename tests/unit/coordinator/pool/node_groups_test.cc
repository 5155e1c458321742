#include "coordinator/pool/node_groups.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace longhaul {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class NodeGroupsTest : public testing::Test {
 protected:
  absl::Status Join(const std::string& incarnation, NodeTraits traits,
                    const std::string& running = "", const std::string& fresh = "fresh") {
    return groups_.Join("a", incarnation, traits, running, fresh, now_);
  }
  static NodeTraits Of(int nodes, int ranks = 1) { return {.nodes = nodes, .traits = {ranks}}; }

  absl::Time now_ = absl::FromUnixSeconds(1000);
  NodeGroups groups_{{.lease = absl::Seconds(10), .pools_max = 2}};
};

TEST_F(NodeGroupsTest, CountsRanksThroughTheNodes) {
  ASSERT_TRUE(Join("n1", {.nodes = 3, .number = 1, .traits = {2, false, {"x", "y"}}}).ok());
  ASSERT_TRUE(Join("n2", {.nodes = 3, .number = 2, .traits = {1, false, {"y", "z"}}}).ok());
  EXPECT_FALSE(groups_.Complete("a"));
  EXPECT_EQ(groups_.TraitsOf("a").ranks, 3) << "of the nodes that are here";
  ASSERT_TRUE(Join("n0", {.nodes = 3,
                          .traits = {3, false, {"x", "y", "z"}},
                          .rendezvous = "h:1",
                          .token = "secret"})
                  .ok());
  EXPECT_TRUE(groups_.Complete("a"));
  EXPECT_EQ(groups_.GroupOf("a"), "fresh");
  EXPECT_EQ(groups_.TraitsOf("a").ranks, 6);
  EXPECT_THAT(groups_.TraitsOf("a").capabilities, ElementsAre("y"));
  const NodePlace place = *groups_.PlaceOf("a", "n2");
  EXPECT_EQ(place.node, 2);
  EXPECT_EQ(place.first_rank, 5);
  EXPECT_EQ(place.ranks_of_node.size(), static_cast<size_t>(place.nodes));
  EXPECT_EQ(place.ranks, 6);
  EXPECT_EQ(place.rendezvous, "h:1");
  EXPECT_EQ(place.token, "secret");
  EXPECT_FALSE(groups_.PlaceOf("a", "other").has_value());
  EXPECT_FALSE(groups_.PlaceOf("b", "n2").has_value());
}

TEST_F(NodeGroupsTest, ALostNodeEndsTheGroupAndItsPoolIsTold) {
  ASSERT_TRUE(Join("n0", Of(2)).ok());
  ASSERT_TRUE(Join("n1", Of(2)).ok());
  now_ += absl::Seconds(6);
  ASSERT_TRUE(groups_.Renew("a", "n0", now_).ok());
  now_ += absl::Seconds(4);
  EXPECT_THAT(groups_.Expire(now_), ElementsAre("a"));
  EXPECT_EQ(groups_.GroupOf("a"), "");
  EXPECT_TRUE(absl::IsNotFound(groups_.Renew("a", "n1", now_)));
  EXPECT_EQ(groups_.PlaceOf("a", "n0")->missing, "node 1 of 2");
  EXPECT_EQ(groups_.PlaceOf("a", "n0")->since, now_);
  now_ += absl::Seconds(6);
  EXPECT_THAT(groups_.Expire(now_), ElementsAre("a"));
  EXPECT_FALSE(groups_.Has("a")) << "nobody is left";
}

TEST_F(NodeGroupsTest, ARepeatedJoinChangesNothing) {
  ASSERT_TRUE(Join("n0", Of(2), "", "first").ok());
  ASSERT_TRUE(Join("n1", Of(2), "", "first").ok());
  ASSERT_TRUE(Join("n0", Of(2), "", "second").ok());
  EXPECT_EQ(groups_.GroupOf("a"), "first");
  EXPECT_EQ(groups_.PlaceOf("a", "n0")->node, 0);
}

// Numbers of nodes are compared with it.
TEST_F(NodeGroupsTest, ARepeatedJoinCannotChangeTheNumberOfNodes) {
  ASSERT_TRUE(Join("n0", {.nodes = 2, .number = 0}).ok());
  const absl::Status status = Join("n0", {.nodes = 8, .number = 0});
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(status.message(), HasSubstr("the number of nodes is 2 on node 0, 8 on this one"));
  EXPECT_TRUE(absl::IsFailedPrecondition(Join("n7", {.nodes = 8, .number = 7})));
}

TEST_F(NodeGroupsTest, AGroupComesBackWithItsNameUntilANodeDisagrees) {
  ASSERT_TRUE(Join("n1", {.nodes = 2, .number = 1}, "old").ok());
  EXPECT_EQ(groups_.GroupOf("a"), "old");
  EXPECT_FALSE(groups_.Complete("a"));
  ASSERT_TRUE(Join("n0", {.nodes = 2}, "old").ok());
  EXPECT_EQ(groups_.GroupOf("a"), "old");
  EXPECT_TRUE(groups_.Complete("a"));
  ASSERT_TRUE(groups_.Leave("a", "n0", now_));
  ASSERT_TRUE(Join("n2", {.nodes = 2}, "", "new").ok());
  EXPECT_EQ(groups_.GroupOf("a"), "new");
}

TEST_F(NodeGroupsTest, ABrokenGroupKeepsItsNodes) {
  ASSERT_TRUE(Join("n0", Of(2)).ok());
  ASSERT_TRUE(Join("n1", Of(2)).ok());
  groups_.Break("a", now_);
  groups_.Break("b", now_);
  EXPECT_EQ(groups_.GroupOf("a"), "");
  EXPECT_TRUE(groups_.Renew("a", "n1", now_).ok());
  ASSERT_TRUE(Join("n1", Of(2), "", "next").ok());
  EXPECT_EQ(groups_.GroupOf("a"), "next") << "all are here";
}

TEST_F(NodeGroupsTest, ANodeThatMayHaveAnyNumberMakesRoomForOneThatMayNot) {
  ASSERT_TRUE(Join("any", {.nodes = 2, .traits = {2}}).ok());
  EXPECT_EQ(groups_.PlaceOf("a", "any")->node, 0);
  now_ += absl::Seconds(6);
  ASSERT_TRUE(Join("n0", {.nodes = 2, .number = 0, .traits = {3}}).ok());
  EXPECT_EQ(groups_.PlaceOf("a", "n0")->node, 0);
  EXPECT_EQ(groups_.PlaceOf("a", "any")->node, 1);
  EXPECT_EQ(groups_.PlaceOf("a", "any")->first_rank, 3);
  EXPECT_EQ(groups_.GroupOf("a"), "fresh");
  ASSERT_TRUE(groups_.Renew("a", "any", now_).ok());
  ASSERT_TRUE(groups_.Renew("a", "n0", now_).ok());
  // Nobody makes room while there is a group, for an agent whose number is given already, or where
  // no other number is free.
  EXPECT_TRUE(absl::IsAlreadyExists(Join("other", {.nodes = 2, .number = 1})));
  groups_.Break("a", now_);
  EXPECT_TRUE(absl::IsAlreadyExists(Join("other", {.nodes = 2, .number = 1})));
  ASSERT_TRUE(groups_.Leave("a", "any", now_));
  EXPECT_TRUE(absl::IsAlreadyExists(Join("other", {.nodes = 2, .number = 0})));
  EXPECT_EQ(groups_.PlaceOf("a", "n0")->node, 0);
}

TEST_F(NodeGroupsTest, ANumberThatWasGivenIsNotFixed) {
  ASSERT_TRUE(Join("any", {.nodes = 2, .number = 1, .given = true}, "old").ok());
  EXPECT_TRUE(absl::IsAlreadyExists(Join("n1", {.nodes = 2, .number = 1}, "other")))
      << "that group may come back";
  groups_.Break("a", now_);
  EXPECT_TRUE(absl::IsAlreadyExists(Join("n1", {.nodes = 2, .number = 1, .given = true})));
  ASSERT_TRUE(Join("n1", {.nodes = 2, .number = 1}).ok());
  EXPECT_EQ(groups_.PlaceOf("a", "any")->node, 0);
  EXPECT_EQ(groups_.PlaceOf("a", "n1")->node, 1);
}

TEST_F(NodeGroupsTest, ANodeThatMadeRoomIsLostAsEveryOther) {
  ASSERT_TRUE(Join("any", {.nodes = 3, .traits = {1}, .machine = "m"}).ok());
  ASSERT_TRUE(Join("n0", {.nodes = 3, .number = 0, .traits = {1}}).ok());
  EXPECT_EQ(groups_.PlaceOf("a", "any")->node, 1);
  EXPECT_EQ(groups_.NodesOf("a")[1].machine, "m");
  now_ += absl::Seconds(6);
  ASSERT_TRUE(groups_.Renew("a", "n0", now_).ok());
  now_ += absl::Seconds(4);
  EXPECT_THAT(groups_.Expire(now_), ElementsAre("a"));
  EXPECT_FALSE(groups_.PlaceOf("a", "any").has_value());
  EXPECT_EQ(groups_.PlaceOf("a", "n0")->missing, "nodes 1, 2 of 3");
}

TEST_F(NodeGroupsTest, AnAddressOfOneMachineIsNotReachedFromAnother) {
  ASSERT_TRUE(Join("n0", {.nodes = 3, .host = "127.0.0.1"}).ok());
  EXPECT_TRUE(Join("n1", {.nodes = 3, .host = "127.0.0.2"}).ok());
  const absl::Status status = Join("n2", {.nodes = 3, .host = "10.0.0.2"});
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(status.message(), HasSubstr("the address is 127.0.0.1 on node 0"));
  EXPECT_THAT(status.message(), HasSubstr("give node 0 --in-pool-address"));
  // The nodes that wait are told, too, until the pool is complete.
  EXPECT_THAT(groups_.PlaceOf("a", "n0")->missing,
              HasSubstr("node 2 of 3; a node was refused: nodes of pool a disagree"));
  EXPECT_THAT(groups_.forming()[0].missing, HasSubstr("--in-pool-address"));
  EXPECT_TRUE(Join("n2", {.nodes = 3, .host = "127.0.0.3"}).ok());
  groups_.Leave("a", "n2", now_);
  EXPECT_EQ(groups_.PlaceOf("a", "n0")->missing, "node 2 of 3");
}

TEST_F(NodeGroupsTest, NamesBothThatDisagree) {
  ASSERT_TRUE(Join("n0", {.nodes = 2, .version = "1.0"}).ok());
  const auto refusal = [&](const NodeTraits& traits) {
    const absl::Status status = Join("n1", traits);
    EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
    return std::string(status.message());
  };
  EXPECT_THAT(refusal({.nodes = 3, .version = "1.0"}),
              HasSubstr("the number of nodes is 2 on node 0, 3 on this one"));
  EXPECT_THAT(refusal({.nodes = 2, .traits = {.cuda = true}, .version = "1.0"}),
              HasSubstr("the device is cpu on node 0, cuda on this one"));
  EXPECT_THAT(refusal({.nodes = 2, .version = "1.1"}),
              HasSubstr("the version is 1.0 on node 0, 1.1 on this one"));
  // The refused one left nothing behind.
  EXPECT_THAT(groups_.forming(), testing::SizeIs(1));
  EXPECT_FALSE(groups_.PlaceOf("a", "n1").has_value());
}

TEST_F(NodeGroupsTest, RefusesWhatIsOutOfRange) {
  EXPECT_TRUE(absl::IsInvalidArgument(Join("n0", Of(0))));
  EXPECT_TRUE(absl::IsInvalidArgument(Join("n0", Of(kRanksMax + 1))));
  EXPECT_TRUE(absl::IsInvalidArgument(Join("n0", {.nodes = 2, .number = 2})));
  EXPECT_TRUE(absl::IsInvalidArgument(Join("n0", {.nodes = 2, .number = -1})));
  EXPECT_TRUE(absl::IsResourceExhausted(Join("n0", Of(2, kRanksMax + 1))));
  EXPECT_THAT(groups_.forming(), IsEmpty()) << "nothing is kept of them";
  ASSERT_TRUE(Join("n0", Of(2, kRanksMax - 1)).ok());
  EXPECT_TRUE(absl::IsResourceExhausted(Join("n1", Of(2, 2))));
  ASSERT_TRUE(groups_.Join("b", "n", Of(2), "", "", now_).ok());
  EXPECT_TRUE(absl::IsResourceExhausted(groups_.Join("c", "n", Of(2), "", "", now_)));
}

}  // namespace
}  // namespace longhaul

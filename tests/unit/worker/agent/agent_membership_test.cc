#include "worker/agent/agent_membership.h"

#include "gtest/gtest.h"

namespace longhaul {
namespace {

using Remedy = AgentMembership::Remedy;

TEST(AgentMembershipTest, ReportsCountForTheSubjectOfTheLastAnswer) {
  AgentMembership membership(false, "a1");
  EXPECT_FALSE(membership.joined());
  EXPECT_TRUE(membership.Granted("job", 2, {}));
  EXPECT_TRUE(membership.joined());
  EXPECT_FALSE(membership.Granted("job", 2, {}));
  EXPECT_TRUE(membership.About({"a1", "job", 2}));
  EXPECT_TRUE(membership.Granted("job", 3, {}));
  EXPECT_FALSE(membership.About({"a1", "job", 2}));
  EXPECT_TRUE(membership.BeginAnew("a2"));
  EXPECT_FALSE(membership.joined());
  EXPECT_EQ(membership.incarnation(), "a2");
  EXPECT_TRUE(membership.About({"a2", "", 0}));
}

TEST(AgentMembershipTest, ItKnowsTheIncarnationBefore) {
  AgentMembership membership(false, "a1", "a0");
  EXPECT_EQ(membership.before(), "a0");
  membership.Granted("job", 0, {});
  EXPECT_EQ(membership.before(), "a0");
  membership.BeginAnew("a2");
  EXPECT_EQ(membership.before(), "a1");
  EXPECT_EQ(AgentMembership(false, "b1").before(), "");
}

TEST(AgentMembershipTest, AfterARestartOfTheCoordinatorTheSameIncarnationJoins) {
  AgentMembership membership(false, "a1");
  EXPECT_EQ(membership.Refused(absl::NotFoundError("")), Remedy::kNone);
  membership.Granted("job", 0, {});
  EXPECT_EQ(membership.Refused(absl::UnavailableError("")), Remedy::kNone);
  EXPECT_TRUE(membership.joined());
  EXPECT_EQ(membership.Refused(absl::NotFoundError("")), Remedy::kJoin);
  EXPECT_FALSE(membership.joined());
  EXPECT_FALSE(membership.Granted("job", 0, {}));
  EXPECT_EQ(membership.Refused(absl::AbortedError("")), Remedy::kBeginAnew);
}

TEST(AgentMembershipTest, OnlyAHeartbeatHasReportsThatAreRefused) {
  AgentMembership membership(false, "a1");
  EXPECT_EQ(membership.Refused(absl::InvalidArgumentError("")), Remedy::kNone);
  membership.Granted("", 0, {});
  EXPECT_EQ(membership.Refused(absl::InvalidArgumentError("")), Remedy::kDropReports);
}

TEST(AgentMembershipTest, RanksOfAGroupGoOnWhileItExists) {
  AgentMembership membership(true, "a1");
  EXPECT_FALSE(membership.running().has_value());
  membership.Granted("job", 0, {"group", 1});
  EXPECT_EQ(membership.of_ranks(), "group");
  EXPECT_EQ(membership.Refused(absl::NotFoundError("")), Remedy::kJoin);
  ASSERT_TRUE(membership.running().has_value());
  EXPECT_EQ(membership.running()->node, 1);
  EXPECT_EQ(membership.Refused(absl::AlreadyExistsError("")), Remedy::kLeaveGroup);
  EXPECT_TRUE(membership.LeaveGroup());
  EXPECT_FALSE(membership.running().has_value());
  EXPECT_EQ(membership.Refused(absl::AlreadyExistsError("")), Remedy::kNone);
}

TEST(AgentMembershipTest, ADrainEndsWithItsGroup) {
  AgentMembership alone(false, "a1"), node(true, "b1");
  EXPECT_TRUE(alone.Drain({"of another", "job", 0}));
  alone.Granted("other", 0, {});
  EXPECT_TRUE(alone.draining());
  node.Granted("job", 0, {"group", 1});
  EXPECT_FALSE(node.Drain({"an earlier group", "job", 0}));
  EXPECT_TRUE(node.Drain({"group", "job", 0}));
  node.Granted("", 0, {"group", 1});
  EXPECT_TRUE(node.draining());
  node.Granted("", 0, {"the next group", 1});
  EXPECT_FALSE(node.draining());
}

}  // namespace
}  // namespace longhaul

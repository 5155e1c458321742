#include "coordinator/service/plan_message.h"

#include "tests/unit/coordinator/effects/performer_testing.h"

namespace longhaul::coordinator {
namespace {

class PlanMessageTest : public PerformerTest {
 protected:
  v1::Plan PlanOf(const std::string& id, const AdmitRank& rank) {
    return MakePlan(*performer_->Find(id), *performer_->View(id), rank).plan();
  }
};

TEST_F(PlanMessageTest, APlanIsOfTheJobAndOfTheRanksPlace) {
  const std::string id = RunPair();
  const v1::Plan plan = PlanOf(
      id, {.job = id, .pool = "b", .incarnation = "1", .rank = 3, .start_step = 7, .ordinal = 1});
  EXPECT_EQ(plan.job_id(), id);
  EXPECT_EQ(plan.steps(), 60);
  EXPECT_EQ(plan.start_step(), 7);
  EXPECT_EQ(plan.ordinal(), 1);
  EXPECT_FALSE(plan.seed());
  EXPECT_TRUE(plan.all_evaluate_last());
  EXPECT_EQ(plan.up().codec(), Spec("pair").spec.sync().up().codec());
  ASSERT_EQ(plan.fragments_size(), 1);
  EXPECT_EQ(plan.fragments(0).elements(), kElements);
  EXPECT_EQ(plan.fragments(0).version(), 0);
  EXPECT_EQ(plan.fragments(0).commit().version(), 0);
  EXPECT_EQ(plan.fragments(0).commit().pools_size(), 0);
  EXPECT_NE(plan.fragments(0).digest().high(), 0u);
  int64_t elements = 0;
  for (const v1::UnitSpan& unit : plan.fragments(0).units()) elements += unit.elements();
  EXPECT_EQ(elements, kElements);
}

TEST_F(PlanMessageTest, AFragmentSaysWhetherThePoolContributedAlready) {
  const std::string id = RunPair();
  EXPECT_TRUE(PlanOf(id, {.job = id, .pool = "a", .ordinal = 0}).fragments(0).contributed());
  EXPECT_FALSE(PlanOf(id, {.job = id, .pool = "b", .ordinal = 1}).fragments(0).contributed());
}

// The earlier incarnation's part counts or makes way; either way it is not this one's.
TEST_F(PlanMessageTest, WhatAnEarlierIncarnationContributedIsNotOfThisOne) {
  const std::string id = RunPair();
  Step(LeavePool{"a", "1", absl::Minutes(1)});
  const std::vector<std::string> needs = NeedsOf(Spec("any").spec);
  Step(JoinPool{"a", "2", 1, false, {needs.begin(), needs.end()}});
  EXPECT_EQ(performer_->Place(id, "a")->incarnation, "2");
  EXPECT_FALSE(PlanOf(id, {.job = id, .pool = "a", .ordinal = 0}).fragments(0).contributed());
}

TEST_F(PlanMessageTest, BeforeTheSeedAFragmentHasNoCommit) {
  const std::string id = Submit("job");
  Join("a");
  const v1::Plan plan = PlanOf(id, {.job = id, .pool = "a", .seed = true});
  EXPECT_TRUE(plan.seed());
  EXPECT_EQ(plan.fragments(0).version(), -1);
  EXPECT_FALSE(plan.fragments(0).has_commit() || plan.fragments(0).has_digest());
}

}  // namespace
}  // namespace longhaul::coordinator

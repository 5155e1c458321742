#include "worker/session/plan_conversion.h"

#include <limits>

#include "gtest/gtest.h"

namespace longhaul::session {
namespace {

v1::Plan ValidPlan() {
  v1::Plan plan;
  plan.set_steps(100);
  plan.set_tau(1);
  plan.set_alpha(0.5);
  for (int i = 0; i < 2; ++i) {
    v1::FragmentPlan* fragment = plan.add_fragments();
    fragment->set_fragment(i);
    fragment->set_elements(300);
    fragment->set_first_push_step(5 * (i + 1));
    fragment->set_period(10);
    fragment->set_rounds(9);
    fragment->set_version(-1);
    v1::UnitSpan* unit = fragment->add_units();
    unit->set_unit(i);
    unit->set_elements(300);
  }
  return plan;
}

TEST(PlanConversionTest, AValidPlanIsTakenOver) {
  v1::Plan proto = ValidPlan();
  proto.mutable_fragments(1)->set_version(3);
  v1::Commit* commit = proto.mutable_fragments(1)->mutable_commit();
  commit->set_version(3);
  commit->set_kind(v1::OUTER);
  commit->set_evaluator("a");
  commit->add_pools("b");
  proto.set_pool_evaluation_cycles(5);
  proto.set_outer_evaluation_cycles(7);
  proto.set_all_evaluate_last(true);
  const auto plan = PlanFromProto(proto, {"a", "2"});
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->fragments[0].newest.version, -1);
  EXPECT_EQ(plan->fragments[1].newest.version, 3);
  EXPECT_TRUE(plan->fragments[1].newest.evaluate);
  EXPECT_FALSE(plan->fragments[1].newest.contributed);
  EXPECT_EQ(plan->fragments[1].schedule.PushStep(2), 20);
  EXPECT_EQ(plan->pool_evaluation_cycles, 5);
  EXPECT_EQ(plan->outer_evaluation_cycles, 7);
  EXPECT_TRUE(plan->all_evaluate_last);
}

// The pool's contribution may be that of an earlier incarnation, which knew its coding error.
TEST(PlanConversionTest, ACommitSaysWhoseContributionCounted) {
  v1::Commit proto;
  proto.set_kind(v1::OUTER);
  proto.add_pools("b");
  proto.add_pools("a");
  // An earlier version of the coordinator does not say which incarnation.
  Commit commit = *CommitFromProto(proto, {"a", "2"});
  EXPECT_TRUE(commit.contributed);
  EXPECT_FALSE(commit.earlier);
  proto.add_incarnations("9");
  EXPECT_TRUE(absl::IsInvalidArgument(CommitFromProto(proto, {"a", "2"}).status()));
  proto.add_incarnations("1");
  commit = *CommitFromProto(proto, {"a", "2"});
  EXPECT_TRUE(commit.contributed);
  EXPECT_TRUE(commit.earlier);
  commit = *CommitFromProto(proto, {"a", "1"});
  EXPECT_TRUE(commit.contributed);
  EXPECT_FALSE(commit.earlier);
  EXPECT_FALSE(CommitFromProto(proto, {"c", "1"})->contributed);
}

TEST(PlanConversionTest, ImpossiblePlansAreRefused) {
  const auto refused = [](auto change) {
    v1::Plan plan = ValidPlan();
    change(plan);
    return PlanFromProto(plan, {"a", "2"}).status().code() == absl::StatusCode::kInvalidArgument;
  };
  EXPECT_TRUE(refused([](v1::Plan& p) { p.set_steps(0); }));
  EXPECT_TRUE(refused([](v1::Plan& p) { p.set_alpha(2); }));
  EXPECT_TRUE(refused([](v1::Plan& p) { p.set_tau(10); }));
  EXPECT_TRUE(refused([](v1::Plan& p) { p.set_start_step(101); }));
  EXPECT_TRUE(refused([](v1::Plan& p) { p.clear_fragments(); }));
  EXPECT_TRUE(refused([](v1::Plan& p) { p.mutable_fragments(1)->set_fragment(7); }));
  EXPECT_TRUE(refused([](v1::Plan& p) { p.mutable_fragments(0)->set_period(0); }));
  EXPECT_TRUE(refused([](v1::Plan& p) { p.mutable_fragments(0)->set_first_push_step(0); }));
  EXPECT_TRUE(refused([](v1::Plan& p) { p.mutable_fragments(0)->set_first_push_step(100); }));
  EXPECT_TRUE(refused([](v1::Plan& p) { p.mutable_fragments(1)->set_rounds(11); }));
  EXPECT_TRUE(refused([](v1::Plan& p) {
    p.mutable_fragments(0)->set_period(std::numeric_limits<int64_t>::max());
  }));
  EXPECT_TRUE(
      refused([](v1::Plan& p) { p.mutable_fragments(0)->set_version(2); }));  // without its commit
  EXPECT_TRUE(refused([](v1::Plan& p) { p.mutable_fragments(1)->set_endpoint("nowhere"); }));
  EXPECT_FALSE(refused([](v1::Plan& p) { p.mutable_fragments(1)->set_endpoint("here:7071"); }));
}

TEST(PlanConversionTest, LayoutsMustHoldEveryUnitOnce) {
  const ModelLayout model = *LayOutSynthetic(2, 300);
  ASSERT_TRUE(LayoutsFromProto(ValidPlan(), model).ok());
  const auto refused = [&](auto change) {
    v1::Plan plan = ValidPlan();
    change(plan);
    return LayoutsFromProto(plan, model).status().code() == absl::StatusCode::kInvalidArgument;
  };
  EXPECT_TRUE(refused([](v1::Plan& p) { p.mutable_fragments(1)->mutable_units(0)->set_unit(0); }));
  EXPECT_TRUE(refused([](v1::Plan& p) { p.mutable_fragments(1)->mutable_units(0)->set_unit(9); }));
  EXPECT_TRUE(
      refused([](v1::Plan& p) { p.mutable_fragments(1)->mutable_units(0)->set_elements(299); }));
  EXPECT_TRUE(
      refused([](v1::Plan& p) { p.mutable_fragments(1)->mutable_units(0)->set_offset(1); }));
  EXPECT_TRUE(refused([](v1::Plan& p) {  // a gap of a whole block
    p.mutable_fragments(1)->mutable_units(0)->set_offset(128);
    p.mutable_fragments(1)->set_elements(428);
  }));
  EXPECT_TRUE(refused([](v1::Plan& p) {
    p.mutable_fragments(1)->mutable_units(0)->set_offset(std::numeric_limits<int64_t>::max() - 127);
  }));
  EXPECT_TRUE(refused([](v1::Plan& p) { p.mutable_fragments()->RemoveLast(); }));
}

}  // namespace
}  // namespace longhaul::session

// What the transcripts (tests/scenarios) do not show: accessors, repeated and stale events.
#include "worker/session/core/session.h"

#include <gtest/gtest.h>

namespace longhaul::session {
namespace {

class SessionTest : public testing::Test {
 protected:
  static Plan MakePlan(int64_t version = 0) {
    Plan plan{.steps = 8};
    for (const FragmentSchedule& schedule :
         MakeSchedule({.fragments = 1, .h = 4, .tau = 1, .steps = 8})) {
      plan.fragments.push_back({schedule, {.version = version}, false});
    }
    return plan;
  }
  std::vector<Action> Do(const Event& event) { return session_.Step(event, now_); }
  void Train() {
    Do(PlanReceived{MakePlan()});
    Do(PulledWhole{0, 0});
    Do(VersionsAgreed{{{0}}});
  }

  absl::Time now_ = absl::UnixEpoch();
  Session session_;
};

TEST_F(SessionTest, GoesThroughItsStates) {
  EXPECT_EQ(session_.state(), SessionState::kConnecting);
  EXPECT_EQ(session_.version(0), -1);
  Do(PlanReceived{MakePlan()});
  EXPECT_EQ(session_.state(), SessionState::kStarting);
  Do(PulledWhole{0, 0});
  EXPECT_EQ(session_.state(), SessionState::kAgreeing);
  Do(VersionsAgreed{{{0}}});
  EXPECT_EQ(session_.state(), SessionState::kTraining);
  EXPECT_EQ(session_.step(), 1);
  EXPECT_EQ(session_.version(0), 0);
  Do(Ended{"CANCELLED"});
  EXPECT_EQ(session_.state(), SessionState::kEnded);
}

// Pushes at steps 3 and 7, merges at 4 and 8: whatever a rank has heard of by then.
TEST_F(SessionTest, RanksSettleWhereSomethingIsDue) {
  std::vector<int64_t> settled;
  const auto note = [&](const std::vector<Action>& actions) {
    for (const Action& action : actions) {
      const auto* step = std::get_if<RunStep>(&action);
      if (step != nullptr && step->settle) settled.push_back(step->step);
    }
  };
  Train();
  for (int64_t step = 1; step < 8; ++step) {
    if (step == 3) {
      Do(CommitPublished{0, {1, RoundKind::kOuter}});
      Do(Pulled{0, 1});
    }
    note(Do(StepDone{step}));
  }
  EXPECT_EQ(settled, (std::vector<int64_t>{3, 4, 7, 8}));
}

TEST_F(SessionTest, SaysWhatItWaitsForAndSinceWhen) {
  Train();
  for (int64_t step : {1, 2, 3}) Do(StepDone{step});
  EXPECT_FALSE(session_.waiting().has_value());
  now_ += absl::Seconds(5);
  Do(StepDone{4});
  ASSERT_TRUE(session_.waiting().has_value());
  EXPECT_EQ(session_.waiting()->what, "fragment 0 version 1");
  EXPECT_EQ(session_.waiting()->since_step, 4);
  EXPECT_EQ(session_.waiting()->since, now_);
  EXPECT_EQ(session_.state(), SessionState::kBlocked);
  now_ += absl::Seconds(5);
  Do(CommitPublished{0, {1, RoundKind::kOuter}});
  Do(Pulled{0, 1});
  EXPECT_FALSE(session_.waiting().has_value());
}

TEST_F(SessionTest, RepeatedAndStaleEventsChangeNothing) {
  Train();
  EXPECT_TRUE(Do(PulledWhole{0, 0}).empty());
  EXPECT_TRUE(Do(CommitPublished{0, {0, RoundKind::kSeed}}).empty());
  EXPECT_TRUE(Do(Pulled{0, 0}).empty());
  EXPECT_EQ(Do(CommitPublished{0, {1, RoundKind::kOuter}}).size(), 1);
  EXPECT_TRUE(Do(CommitPublished{0, {1, RoundKind::kOuter}}).empty());
  EXPECT_TRUE(Do(PushDone{0, 1}).empty());
}

TEST_F(SessionTest, AnotherPlaceMeansAnotherIncarnation) {
  Train();
  Do(Disconnected{});
  EXPECT_FALSE(session_.connected());
  Plan other = MakePlan();
  other.ordinal = 3;
  const auto actions = Do(PlanReceived{other});
  ASSERT_EQ(actions.size(), 1);
  EXPECT_TRUE(std::holds_alternative<Restart>(actions[0]));
}

TEST_F(SessionTest, ACoordinatorThatForgotACommitIsNotFollowed) {
  Train();
  Do(CommitPublished{0, {1, RoundKind::kOuter}});
  Do(Disconnected{});
  const auto actions = Do(PlanReceived{MakePlan(/*version=*/0)});
  ASSERT_EQ(actions.size(), 1);
  EXPECT_TRUE(std::holds_alternative<Restart>(actions[0]));
}

TEST_F(SessionTest, ARefusedPullEndsTheIncarnation) {
  Train();
  const auto actions = Do(PullRefused{0, absl::DataLossError("digest"), "DIGEST_MISMATCH"});
  ASSERT_EQ(actions.size(), 1);
  EXPECT_TRUE(std::holds_alternative<Restart>(actions[0]));
  EXPECT_TRUE(Do(StepDone{1}).empty());
}

TEST_F(SessionTest, RefusedPlansFinishOrRestart) {
  const auto actions = Do(PlanRefused{absl::AbortedError("gone"), "POOL_REPLACED"});
  ASSERT_EQ(actions.size(), 1);
  EXPECT_TRUE(std::holds_alternative<Restart>(actions[0]));
}

}  // namespace
}  // namespace longhaul::session

// What the transcripts (tests/scenarios) do not show: bounds, views, deadlines, and events that
// change nothing.
#include "coordinator/core/coordinator.h"

#include <gtest/gtest.h>

namespace longhaul::coordinator {
namespace {

class CoordinatorTest : public testing::Test {
 protected:
  static JobOptions Options(int pools_min = 1) {
    return {.pools_min = pools_min,
            .schedule = MakeSchedule({.fragments = 1, .h = 4, .tau = 1, .steps = 8}),
            .steps = 8};
  }
  std::vector<Action> Do(const Event& event) { return core_.Step(event, now_); }
  // The first action of this kind; fails if there is none.
  template <typename T>
  T One(const Event& event) {
    for (const Action& action : Do(event)) {
      if (const T* found = std::get_if<T>(&action)) return *found;
    }
    ADD_FAILURE() << "no such action";
    return T{};
  }
  void RunJob() {
    Do(SubmitJob{"j", Options()});
    Do(JoinPool{"a", "1", 2});
    Do(RankReady{"j", "a", "1", 0});
    Do(ContributionComplete{"j", "a", "1", 0, 0, RoundKind::kSeed});
    Do(RoundApplied{"j", 0, 0});
  }

  absl::Time now_ = absl::UnixEpoch();
  Coordinator core_{
      {.lease = absl::Seconds(10), .final_evaluation = absl::Seconds(60), .pools_max = 2},
      {},
      now_};
};

TEST_F(CoordinatorTest, PersistsBeforeItAnswers) {
  const auto submitted = Do(SubmitJob{"j", Options()});
  ASSERT_EQ(submitted.size(), 1);
  EXPECT_TRUE(std::holds_alternative<PersistJobState>(submitted[0]));
  const auto joined = Do(JoinPool{"a", "1", 1});
  ASSERT_EQ(joined.size(), 2);
  EXPECT_TRUE(std::holds_alternative<PersistParticipant>(joined[0]));
  EXPECT_TRUE(std::holds_alternative<GrantLease>(joined[1]));
}

TEST_F(CoordinatorTest, RefusesMorePoolsThanItsMost) {
  Do(JoinPool{"a", "1", 1});
  Do(JoinPool{"b", "1", 1});
  const Refuse refuse = One<Refuse>(JoinPool{"c", "1", 1});
  EXPECT_TRUE(absl::IsResourceExhausted(refuse.status));
  EXPECT_EQ(refuse.reason, "POOLS_FULL");
}

TEST_F(CoordinatorTest, ContributionBeginsAsksAndChangesNothing) {
  RunJob();
  EXPECT_TRUE(Do(ContributionBegins{"j", "a", "1", 0, 1, RoundKind::kOuter}).empty());
  EXPECT_TRUE(core_.job("j")->fragments[0].contributors.empty());
  EXPECT_EQ(One<Refuse>(ContributionBegins{"j", "a", "1", 0, 7, RoundKind::kOuter}).have, 0);
  EXPECT_EQ(One<Refuse>(ContributionBegins{"x", "a", "1", 0, 1, RoundKind::kOuter}).reason,
            "JOB_UNKNOWN");
}

TEST_F(CoordinatorTest, TheNextDeadlineIsTheFirstLeaseOrTheFinalEvaluation) {
  EXPECT_EQ(core_.next_deadline(), absl::InfiniteFuture());
  RunJob();
  EXPECT_EQ(core_.next_deadline(), now_ + absl::Seconds(10));
  for (int64_t version : {1, 2}) {
    Do(ContributionComplete{"j", "a", "1", 0, version, RoundKind::kOuter});
    Do(RoundApplied{"j", 0, version});
  }
  Do(ContributionComplete{"j", "a", "1", 0, 3, RoundKind::kFinal});
  Do(RoundApplied{"j", 0, 3});
  now_ += absl::Seconds(9);
  for (int i = 0; i < 6; ++i, now_ += absl::Seconds(9)) Do(Heartbeat{"a", "1", "j", 8});
  EXPECT_EQ(core_.next_deadline(), absl::UnixEpoch() + absl::Seconds(60));
}

TEST_F(CoordinatorTest, ShowsPoolsWithTheirPlaceAndProgress) {
  RunJob();
  Do(JoinPool{"b", "1", 3});
  Do(Heartbeat{"a", "1", "j", 5});
  const auto pools = core_.pools();
  ASSERT_EQ(pools.size(), 2);
  EXPECT_TRUE(pools[0].ready);
  EXPECT_EQ(pools[0].assignment->job, "j");
  EXPECT_FALSE(pools[1].ready);
  EXPECT_EQ(pools[1].assignment->ordinal, 1);
  EXPECT_EQ(pools[1].ranks, 3);
  EXPECT_EQ(core_.job("j")->participants[0].inner_step, 5);
  EXPECT_EQ(core_.jobs(), std::vector<std::string>{"j"});
  EXPECT_FALSE(core_.job("x").has_value());
}

TEST_F(CoordinatorTest, AFaultOfTheDataPlaneFailsTheJob) {
  RunJob();
  const EndJob end = One<EndJob>(ApplyFailed{"j", {.code = "INTERNAL", .message = "disk full"}});
  EXPECT_EQ(end.state, JobState::kFailed);
  EXPECT_EQ(core_.job("j")->fault->message, "disk full");
}

TEST_F(CoordinatorTest, AFaultReportedByAPoolOfAnotherJobIsRefused) {
  Do(JoinPool{"a", "1", 1});
  JobOptions options = Options();
  options.pool_names = {"z"};
  Do(SubmitJob{"j", options});
  EXPECT_EQ(One<Refuse>(PoolFailed{"a", "1", "j", {}}).reason, "NOT_ASSIGNED");
  EXPECT_EQ(core_.job("j")->state, JobState::kPending);
}

TEST_F(CoordinatorTest, AReturningPoolFindsItsPlaceGivenAwayWhenTheJobIsFull) {
  JobOptions options = Options();
  options.pools_max = 1;
  Do(SubmitJob{"j", options});
  Do(JoinPool{"a", "1", 1});
  now_ += absl::Seconds(11);
  Do(JoinPool{"b", "1", 1});
  EXPECT_EQ(One<Refuse>(JoinPool{"a", "1", 1}).reason, "POOL_LOST");
  EXPECT_FALSE(One<GrantLease>(JoinPool{"a", "2", 1}).assignment.has_value());
}

TEST_F(CoordinatorTest, EndedJobsThatAreRecoveredAnswerHowTheyEnded) {
  Recovery recovery;
  recovery.jobs.push_back({.job = "j",
                           .options = Options(),
                           .state = JobState::kCompleted,
                           .participants = {{.pool = "a", .incarnation = "1", .start_step = 0}}});
  core_ = Coordinator({}, recovery, now_);
  EXPECT_EQ(One<Refuse>(RankReady{"j", "a", "1", 0}).reason, "JOB_ENDED");
  EXPECT_EQ(core_.next_deadline(), absl::InfiniteFuture());
}

TEST_F(CoordinatorTest, ARecoveredFinalEvaluationIsNotAwaitedAgain) {
  Recovery recovery;
  recovery.jobs.push_back({.job = "j",
                           .options = Options(),
                           .state = JobState::kRunning,
                           .final_evaluation = true,
                           .participants = {{.pool = "a", .incarnation = "1", .start_step = 0}},
                           .fragments = {{.version = 3, .evaluator = "a"}}});
  core_ = Coordinator({}, recovery, now_);
  EXPECT_EQ(One<EndJob>(Tick{}).state, JobState::kCompleted);
}

TEST_F(CoordinatorTest, TwoPlacesOfOneNameAreRecoveredAsOne) {
  Recovery recovery;
  recovery.jobs.push_back(
      {.job = "j",
       .options = Options(),
       .state = JobState::kRunning,
       .participants = {{.pool = "a", .incarnation = "1", .ordinal = 0, .start_step = 0},
                        {.pool = "a", .incarnation = "2", .ordinal = 1, .start_step = 0}},
       .fragments = {{.version = 0}}});
  core_ = Coordinator({}, recovery, now_);
  EXPECT_TRUE(core_.job("j")->participants[0].live);
  EXPECT_FALSE(core_.job("j")->participants[1].live);
}

}  // namespace
}  // namespace longhaul::coordinator

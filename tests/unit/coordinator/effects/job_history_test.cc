#include "coordinator/effects/job_history.h"

#include <cmath>

#include "gtest/gtest.h"

namespace longhaul::coordinator {
namespace {

v1::PoolProgress At(const std::string& pool, int64_t step, double waited = 0) {
  v1::PoolProgress progress;
  progress.set_pool(pool);
  progress.set_inner_step(step);
  progress.set_train_loss(1.0 / static_cast<double>(step));
  progress.set_exposed_wait_seconds(waited);
  return progress;
}

v1::JobDetail Filled(const JobHistory& history) {
  v1::JobDetail detail;
  history.Fill(&detail);
  return detail;
}

class JobHistoryTest : public testing::Test {
 protected:
  JobHistory history_{
      std::vector<FragmentSchedule>{{.first_push_step = 9, .period = 10, .tau = 1, .rounds = 5}}};
  const absl::Time start_ = absl::UnixEpoch() + absl::Hours(1);
};

TEST_F(JobHistoryTest, ARoundIsPushedCommittedMerged) {
  history_.Pushed({0, 1, RoundKind::kOuter}, "site-a", start_);
  history_.Pushed({0, 1, RoundKind::kOuter}, "site-b", start_ + absl::Seconds(1));
  // A repeated call.
  history_.Pushed({0, 1, RoundKind::kOuter}, "site-a", start_ + absl::Seconds(2));
  // Nothing to merge yet.
  history_.Reported(At("site-a", 11), start_ + absl::Seconds(2));
  history_.Committed({0, 1, RoundKind::kOuter}, start_ + absl::Seconds(3));
  // It may still wait for the merge.
  history_.Reported(At("site-a", 10), start_ + absl::Seconds(4));
  history_.Reported(At("site-a", 11, 0.5), start_ + absl::Seconds(5));
  history_.Reported(At("site-a", 12, 0.7), start_ + absl::Seconds(6));
  const v1::JobDetail detail = Filled(history_);
  ASSERT_EQ(detail.rounds_size(), 1);
  const v1::RoundTrace& round = detail.rounds(0);
  EXPECT_EQ(round.kind(), "outer");
  EXPECT_EQ(round.merge_step(), 10);
  EXPECT_EQ(round.committed_at().seconds(), 3603);
  ASSERT_EQ(round.pools_size(), 2);
  EXPECT_EQ(round.pools(0).pushed_at().seconds(), 3600);
  EXPECT_EQ(round.pools(0).merged_at().seconds(), 3605);
  EXPECT_EQ(round.pools(0).waited_seconds(), 0.5);
  EXPECT_FALSE(round.pools(1).has_merged_at());
}

TEST_F(JobHistoryTest, AReportMarksAllMergesSinceTheOneBefore) {
  for (int version = 1; version <= 4; ++version) {
    history_.Pushed({0, version, RoundKind::kOuter}, "site-a", start_);
    if (version != 2) history_.Pushed({0, version, RoundKind::kOuter}, "site-b", start_);
    history_.Committed({0, version, RoundKind::kOuter}, start_);
  }
  history_.Reported(At("site-a", 11, 0.5), start_ + absl::Seconds(1));
  history_.Reported(At("site-b", 11, 0.5), start_ + absl::Seconds(1));
  history_.Reported(At("site-a", 31, 2), start_ + absl::Seconds(2));
  history_.Reported(At("site-b", 41, 2), start_ + absl::Seconds(3));
  const v1::JobDetail detail = Filled(history_);
  ASSERT_EQ(detail.rounds_size(), 4);
  const auto merged = [&](int round, int pool) {
    return detail.rounds(round).pools(pool).merged_at().seconds();
  };
  EXPECT_EQ(merged(0, 0), 3601);
  EXPECT_EQ(merged(1, 0), 3602);
  EXPECT_EQ(detail.rounds(1).pools(0).waited_seconds(), 1.5);
  EXPECT_EQ(merged(2, 0), 3602);
  EXPECT_EQ(detail.rounds(2).pools(0).waited_seconds(), 0);
  EXPECT_EQ(merged(3, 0), 0);
  EXPECT_EQ(merged(0, 1), 3601);
  EXPECT_EQ(merged(2, 1), 3603);
  EXPECT_EQ(merged(3, 1), 3603);
}

TEST_F(JobHistoryTest, RoundsThatAreCompleteOutOfOrderAreAllMarked) {
  JobHistory history({{.first_push_step = 4, .period = 10, .tau = 1, .rounds = 5},
                      {.first_push_step = 9, .period = 10, .tau = 1, .rounds = 5}});
  for (const int fragment : {1, 0}) {
    history.Pushed({fragment, 1, RoundKind::kOuter}, "site-a", start_);
    history.Committed({fragment, 1, RoundKind::kOuter}, start_);
  }
  history.Reported(At("site-a", 6, 0.5), start_ + absl::Seconds(1));
  history.Reported(At("site-a", 11, 0.75), start_ + absl::Seconds(2));
  const v1::JobDetail detail = Filled(history);
  ASSERT_EQ(detail.rounds_size(), 2);
  EXPECT_EQ(detail.rounds(0).fragment(), 0);
  EXPECT_EQ(detail.rounds(0).pools(0).merged_at().seconds(), 3601);
  EXPECT_EQ(detail.rounds(1).pools(0).merged_at().seconds(), 3602);
  EXPECT_EQ(detail.rounds(1).pools(0).waited_seconds(), 0.25);
}

TEST_F(JobHistoryTest, KeepsTheNewestRounds) {
  for (int version = 0; version <= 200; ++version)
    history_.Committed({0, version, RoundKind::kSkipped}, start_);
  const v1::JobDetail detail = Filled(history_);
  EXPECT_EQ(detail.rounds_size(), JobHistory::kRoundsMax);
  EXPECT_EQ(detail.rounds().rbegin()->version(), 200);
}

TEST_F(JobHistoryTest, AFullHistoryTakesARoundThatIsOlderThanAll) {
  const auto versions = [&] {
    std::vector<int64_t> found;
    const v1::JobDetail detail = Filled(history_);
    for (const v1::RoundTrace& round : detail.rounds()) found.push_back(round.version());
    return found;
  };
  std::vector<int64_t> expected;
  for (int64_t version = 1; version <= static_cast<int64_t>(JobHistory::kRoundsMax); ++version) {
    history_.Pushed({0, 10 + version, RoundKind::kOuter}, "site-a", start_);
    expected.push_back(10 + version);
  }
  EXPECT_EQ(versions(), expected);
  history_.Pushed({0, 5, RoundKind::kOuter}, "site-a", start_);
  expected.front() = 5;
  EXPECT_EQ(versions(), expected);
}

TEST_F(JobHistoryTest, KeepsACurveOfEachPool) {
  history_.Reported(At("site-b", 2), start_);
  history_.Reported(At("site-a", 1), start_);
  // Before its first step a pool has no loss.
  history_.Reported(At("site-a", 0), start_);
  const v1::JobDetail detail = Filled(history_);
  ASSERT_EQ(detail.curves_size(), 2);
  EXPECT_EQ(detail.curves(0).pool(), "site-a");
  EXPECT_EQ(detail.curves(0).points(0).loss(), 1);
  EXPECT_EQ(detail.curves(1).points(0).step(), 2);
}

}  // namespace
}  // namespace longhaul::coordinator

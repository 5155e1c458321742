#include "worker/optim/variance_schedule.h"

#include <gtest/gtest.h>

#include <vector>

namespace longhaul {
namespace {

std::vector<int64_t> ChangingUpdates(const VarianceSchedule& schedule, int64_t until) {
  std::vector<int64_t> updates;
  for (int64_t update = 1; update <= until; ++update) {
    if (schedule.Changes(update)) updates.push_back(update);
  }
  return updates;
}

TEST(VarianceScheduleTest, StaysFrozenWithoutAScaler) {
  EXPECT_EQ(ChangingUpdates({.frozen_at = 3}, 1000), (std::vector<int64_t>{1, 2, 3}));
  EXPECT_EQ((VarianceSchedule{.frozen_at = 3}.Count(1000)), 3);
}

TEST(VarianceScheduleTest, IntervalsDoubleAfterEachSoManyUpdates) {
  EXPECT_EQ(ChangingUpdates({.frozen_at = 1, .scaler = 2}, 30),
            (std::vector<int64_t>{1, 2, 3, 5, 7, 11, 15, 23}));
  EXPECT_EQ(ChangingUpdates({.frozen_at = 4, .scaler = 1}, 40),
            (std::vector<int64_t>{1, 2, 3, 4, 5, 7, 11, 19, 35}));
}

// The recurrence of the paper.
TEST(VarianceScheduleTest, IsThePapersRecurrence) {
  const VarianceSchedule schedule{.frozen_at = 1, .scaler = 16};
  std::vector<int64_t> expected = {1};
  for (int64_t j = 0; expected.back() + (int64_t{1} << (j / 16)) <= 100'000; ++j)
    expected.push_back(expected.back() + (int64_t{1} << (j / 16)));
  EXPECT_EQ(ChangingUpdates(schedule, 100'000), expected);
  EXPECT_EQ(schedule.Count(100'000), static_cast<int64_t>(expected.size()));
}

TEST(VarianceScheduleTest, HasAnEndByOption) {
  EXPECT_EQ(ChangingUpdates({.frozen_at = 2, .scaler = 3, .until = 7}, 100),
            (std::vector<int64_t>{1, 2, 3, 4, 5, 7}));
  EXPECT_EQ(ChangingUpdates({.frozen_at = 9, .scaler = 3, .until = 7}, 100).size(), 9u)
      << "an end before the freeze changes nothing";
}

}  // namespace
}  // namespace longhaul

#include "worker/optim/local_step_schedule.h"

#include <gtest/gtest.h>

#include <vector>

namespace longhaul {
namespace {

TEST(LocalStepScheduleTest, NoStepIsLocalWithoutAScaler) {
  for (const int64_t update : {1, 10, 1000})
    EXPECT_FALSE((LocalStepSchedule{.after = 3}.Local(update)));
}

TEST(LocalStepScheduleTest, IntervalsDoubleUpToTheClipper) {
  const LocalStepSchedule schedule{.after = 10, .scaler = 3, .clipper = 6};
  EXPECT_FALSE(schedule.Local(10));
  std::vector<int64_t> intervals;
  for (int64_t update = 11; update <= 22; ++update) {
    EXPECT_TRUE(schedule.Local(update));
    intervals.push_back(schedule.Interval(update));
  }
  EXPECT_EQ(intervals, (std::vector<int64_t>{1, 1, 1, 2, 2, 2, 4, 4, 4, 6, 6, 6}));
  EXPECT_EQ(schedule.Interval(int64_t{1} << 60), 6) << "and does not overflow";
}

}  // namespace
}  // namespace longhaul

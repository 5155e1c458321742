#include "worker/optim/learning_rate.h"

#include <gtest/gtest.h>

namespace longhaul {
namespace {

TEST(LearningRateTest, WarmsUpThenFallsAsACosine) {
  const LearningRate rate{.peak = 2, .steps = 110, .warmup_steps = 10, .final_fraction = 0.1};
  EXPECT_DOUBLE_EQ(rate.At(1), 0.2);
  EXPECT_DOUBLE_EQ(rate.At(5), 1);
  EXPECT_DOUBLE_EQ(rate.At(10), 2);
  EXPECT_DOUBLE_EQ(rate.At(60), 1.1);  // Half way: the mean of peak and final.
  EXPECT_DOUBLE_EQ(rate.At(110), 0.2);
  EXPECT_DOUBLE_EQ(rate.At(1000), 0.2);
}

TEST(LearningRateTest, StartsNearThePeakWithoutWarmUp) {
  const LearningRate rate{.peak = 1, .steps = 1000, .final_fraction = 0};
  EXPECT_GT(rate.At(1), 0.99);
  EXPECT_DOUBLE_EQ(rate.At(1000), 0);
}

TEST(LearningRateTest, AWarmUpOfAllStepsEndsAtThePeak) {
  const LearningRate rate{.peak = 2, .steps = 10, .warmup_steps = 10, .final_fraction = 0.1};
  EXPECT_DOUBLE_EQ(rate.At(9), 1.8);
  EXPECT_DOUBLE_EQ(rate.At(10), 2);
  EXPECT_DOUBLE_EQ(rate.At(1000), 2);
}

TEST(LearningRateTest, SurvivesAWarmUpLongerThanTheRun) {
  const LearningRate rate{.peak = 1, .steps = 10, .warmup_steps = 20, .final_fraction = 0.1};
  EXPECT_DOUBLE_EQ(rate.At(10), 0.5);
  EXPECT_DOUBLE_EQ(rate.At(20), 0.5);
}

}  // namespace
}  // namespace longhaul

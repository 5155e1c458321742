#include "worker/optim/variance_watch.h"

#include <gtest/gtest.h>

#include <cmath>

namespace longhaul {
namespace {

// ||v||_1 after so many updates whose squared gradients are a constant.
double NormOfConstant(double value, double beta2, int64_t updates) {
  return value * (1 - std::pow(beta2, static_cast<double>(updates)));
}

TEST(VarianceWatchTest, LooksOnceAWindow) {
  const VarianceWatch watch({.adamw = {.beta2 = 0.99}});
  EXPECT_EQ(watch.window(), 100);
  EXPECT_FALSE(watch.Due(0));
  EXPECT_FALSE(watch.Due(99));
  EXPECT_TRUE(watch.Due(100));
  EXPECT_TRUE(watch.Due(300));
}

// A step that was skipped leaves the number of updates, and so the norm, as it was.
TEST(VarianceWatchTest, LooksOnceAfterAnUpdate) {
  VarianceWatch watch({.adamw = {.beta2 = 0.5}});
  EXPECT_TRUE(watch.Due(2));
  watch.Look(2, NormOfConstant(1, 0.5, 2));
  EXPECT_FALSE(watch.Due(2));
  EXPECT_TRUE(watch.Due(4));
}

TEST(VarianceWatchTest, FreezesWhatNoLongerFalls) {
  VarianceWatch watch({.adamw = {.beta2 = 0.99}});
  EXPECT_FALSE(watch.Look(100, NormOfConstant(8, 0.99, 100))) << "nothing to compare with";
  EXPECT_FALSE(watch.Look(200, NormOfConstant(4, 0.99, 200)));
  EXPECT_FALSE(watch.Look(300, NormOfConstant(3.8, 0.99, 300)));
  EXPECT_TRUE(watch.Look(400, NormOfConstant(3.7, 0.99, 400)));
}

// Uncorrected, v of gradients that halve from window to window would grow at first.
TEST(VarianceWatchTest, TheBeginningAtZeroIsNoGrowth) {
  VarianceWatch watch({.adamw = {.beta2 = 0.99}});
  const double first = NormOfConstant(1, 0.99, 100), second = NormOfConstant(0.9, 0.99, 200);
  EXPECT_GT(second / first, 0.96);
  EXPECT_FALSE(watch.Look(100, first));
  EXPECT_FALSE(watch.Look(200, second));
}

TEST(VarianceWatchTest, WaitsForTheLearningRate) {
  VarianceWatch watch({.adamw = {.beta2 = 0.5}, .freeze_not_before = 5});
  EXPECT_FALSE(watch.Look(2, NormOfConstant(1, 0.5, 2)));
  EXPECT_FALSE(watch.Look(4, NormOfConstant(1, 0.5, 4)));
  EXPECT_TRUE(watch.Look(6, NormOfConstant(1, 0.5, 6)));
}

TEST(VarianceWatchTest, GoesOnFromItsLastNorm) {
  VarianceWatch watch({.adamw = {.beta2 = 0.5}});
  watch.Look(2, NormOfConstant(3, 0.5, 2));
  EXPECT_DOUBLE_EQ(watch.last().norm, 3);
  EXPECT_EQ(watch.last().updates, 2);
  VarianceWatch other({.adamw = {.beta2 = 0.5}});
  other.SetLast(watch.last());
  EXPECT_TRUE(other.Look(4, NormOfConstant(3, 0.5, 4)));
}

}  // namespace
}  // namespace longhaul

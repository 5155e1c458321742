#include "coordinator/effects/loss_curve.h"

#include "gtest/gtest.h"

namespace longhaul::coordinator {
namespace {

TEST(LossCurveTest, StaysWithinItsBoundAndCoversAllSteps) {
  LossCurve curve;
  for (int step = 1; step <= 100'000; ++step) curve.Add(step, step);
  EXPECT_LE(curve.points().size(), LossCurve::kPointsMax);
  EXPECT_GE(curve.points().size(), LossCurve::kPointsMax / 4);
  EXPECT_EQ(curve.points().front().step(), 1);
  EXPECT_GT(curve.points().back().step(), 99'000);
}

TEST(LossCurveTest, APoolThatBeginsAgainReplacesWhatCameAfter) {
  LossCurve curve;
  for (int step = 1; step <= 10; ++step) curve.Add(step, 1);
  curve.Add(4, 2);
  ASSERT_EQ(curve.points().size(), 4);
  EXPECT_EQ(curve.points().back().loss(), 2);
}

}  // namespace
}  // namespace longhaul::coordinator

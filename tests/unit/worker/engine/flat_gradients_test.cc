#include "worker/engine/flat_gradients.h"

#include <gtest/gtest.h>

#include "ATen/ops/full.h"
#include "tests/testing/bigram_model.h"

namespace longhaul {
namespace {

ShardPlan Alone(const ModelLayout& layout) {
  return ShardPlan(layout, {}, Topology::Make({1}).value(), 0);
}

TEST(FlatGradientsTest, AddsContributionsOfOneStepAndForgetsTheLast) {
  const BigramModel model(2);
  const ShardPlan plan = Alone(model.layout());
  FlatGradients gradients(model.layout(), plan, at::kCPU);
  for (int step = 0; step < 2; ++step) {
    gradients.BeginStep();
    gradients.Add({0, 0}, at::full({2, 2}, 3.0));
    gradients.Add({0, 0}, at::full({2, 2}, 4.0));
    gradients.Finish(0);
    EXPECT_EQ(gradients.unit(0)[3].item<float>(), 7);
  }
}

TEST(FlatGradientsTest, TensorsWithoutContributionAreZero) {
  const BigramModel model(2);
  const ShardPlan plan = Alone(model.layout());
  FlatGradients gradients(model.layout(), plan, at::kCPU);
  gradients.BeginStep();
  gradients.Add({1, 0}, at::full({2}, 3.0));
  gradients.Finish(1);
  EXPECT_EQ(gradients.unit(1)[1].item<float>(), 3);
  gradients.BeginStep();
  gradients.Finish(1);
  EXPECT_EQ(gradients.unit(1)[1].item<float>(), 0);
}

TEST(FlatGradientsTest, WidensContributions) {
  const BigramModel model(2);
  const ShardPlan plan = Alone(model.layout());
  FlatGradients gradients(model.layout(), plan, at::kCPU);
  gradients.BeginStep();
  gradients.Add({1, 0}, at::full({2}, 1.5).to(at::kBFloat16));
  gradients.Finish(1);
  EXPECT_EQ(gradients.unit(1).scalar_type(), at::kFloat);
  EXPECT_EQ(gradients.unit(1)[0].item<float>(), 1.5);
}

TEST(FlatGradientsTest, WhatIsNotSplitAddsMicroBatches) {
  const BigramModel model(2);
  const ShardPlan plan = Alone(model.layout());
  FlatGradients gradients(model.layout(), plan, at::kCPU);
  gradients.BeginStep();
  for (int micro = 0; micro < 3; ++micro) gradients.Add({0, 0}, at::full({2, 2}, 1.0));
  gradients.Finish(0);
  EXPECT_EQ(gradients.Range(0, {1, 2})[0].item<float>(), 3);
}

TEST(FlatGradientsTest, WhatIsSplitKeepsItsPartAndItsBuffersGoRound) {
  const ModelLayout layout = {
      .units = {3, {.elements = 512, .tensors = {{.shape = {512}, .elements = 512}}}}};
  const ShardPlan plan(layout, *PartitionPreset("zero2"), Topology::Make({2}).value(), /*rank=*/1);
  FlatGradients gradients(layout, plan, at::kCPU);
  EXPECT_EQ(gradients.kept_bytes(), 3 * 256 * 4);
  for (int step = 1; step <= 2; ++step) {
    gradients.BeginStep();
    for (int micro = 0; micro < 2; ++micro) {
      for (int unit = 2; unit >= 0; --unit) {
        gradients.Add({unit, 0}, at::full({512}, 10.0 * step + unit));
        gradients.Finish(unit);
        gradients.Keep(unit);
        gradients.Release(unit);
        EXPECT_FALSE(gradients.unit(unit).defined());
      }
    }
    for (int unit = 0; unit < 3; ++unit) {
      const at::Tensor sum = gradients.Range(unit, {300, 100});
      EXPECT_EQ(sum.numel(), 100);
      EXPECT_EQ(sum[99].item<float>(), 2 * (10.0 * step + unit));
    }
  }
  EXPECT_EQ(gradients.transient_bytes(), 512 * 4) << "one buffer for all units";
}

}  // namespace
}  // namespace longhaul

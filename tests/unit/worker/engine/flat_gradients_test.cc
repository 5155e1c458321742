#include "worker/engine/flat_gradients.h"

#include <gtest/gtest.h>

#include "ATen/ops/full.h"
#include "worker/model/bigram_model.h"

namespace longhaul {
namespace {

TEST(FlatGradientsTest, AddsContributionsOfOneStepAndForgetsTheLast) {
  const BigramModel model(2);
  FlatGradients gradients(model.layout(), at::kCPU);
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
  FlatGradients gradients(model.layout(), at::kCPU);
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
  FlatGradients gradients(model.layout(), at::kCPU);
  gradients.BeginStep();
  gradients.Add({1, 0}, at::full({2}, 1.5).to(at::kBFloat16));
  gradients.Finish(1);
  EXPECT_EQ(gradients.unit(1).scalar_type(), at::kFloat);
  EXPECT_EQ(gradients.unit(1)[0].item<float>(), 1.5);
}

}  // namespace
}  // namespace longhaul

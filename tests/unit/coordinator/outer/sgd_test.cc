#include "coordinator/outer/sgd.h"

#include <vector>

#include "coordinator/outer/average.h"
#include "gtest/gtest.h"

namespace longhaul {
namespace {

TEST(SgdTest, ScalesAndLeavesTheMomentum) {
  std::vector<float> gradient = {4, -1}, momentum = {7, 7};
  Sgd(2.0f).Step(absl::MakeSpan(gradient), absl::MakeSpan(momentum));
  EXPECT_EQ(gradient, (std::vector<float>{8, -2}));
  EXPECT_EQ(momentum, (std::vector<float>{7, 7}));
}

TEST(AverageTest, StepsByTheGradientAndLeavesTheMomentum) {
  std::vector<float> gradient = {4, -1}, momentum = {7, 7};
  Average().Step(absl::MakeSpan(gradient), absl::MakeSpan(momentum));
  EXPECT_EQ(gradient, (std::vector<float>{4, -1}));
  EXPECT_EQ(momentum, (std::vector<float>{7, 7}));
}

}  // namespace
}  // namespace longhaul

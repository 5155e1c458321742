// What every OuterOptimizer does, with any formula. A backend instantiates the suite with a
// factory.
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <vector>

#include "common/base/random.h"
#include "coordinator/outer/outer_optimizer.h"
#include "gtest/gtest.h"

namespace longhaul {

using OuterOptimizerFactory = std::function<std::unique_ptr<OuterOptimizer>()>;

class OuterOptimizerSuite : public testing::TestWithParam<OuterOptimizerFactory> {
 protected:
  OuterOptimizerSuite() : optimizer_(GetParam()()) {}
  static std::vector<float> Values(size_t size, uint64_t seed) {
    Random random(seed);
    std::vector<float> values(size);
    for (float& value : values) value = static_cast<float>(random.Uniform() - 0.5);
    return values;
  }

  std::unique_ptr<OuterOptimizer> optimizer_;
};

TEST_P(OuterOptimizerSuite, ZerosStayZero) {
  std::vector<float> gradient(100, 0.0f), momentum(100, 0.0f);
  optimizer_->Step(absl::MakeSpan(gradient), absl::MakeSpan(momentum));
  EXPECT_EQ(gradient, std::vector<float>(100, 0.0f));
  EXPECT_EQ(momentum, std::vector<float>(100, 0.0f));
}

TEST_P(OuterOptimizerSuite, TakesAnEmptySpan) { optimizer_->Step({}, {}); }

// Tiles may be cut anywhere, and the remainders of vector loops must not change a bit.
TEST_P(OuterOptimizerSuite, WorksElementByElement) {
  for (const size_t size : {1u, 3u, 15u, 16u, 17u, 127u, 128u, 129u, 1000u}) {
    std::vector<float> gradient = Values(size, 1), momentum = Values(size, 2);
    std::vector<float> gradient_one = gradient, momentum_one = momentum;
    optimizer_->Step(absl::MakeSpan(gradient), absl::MakeSpan(momentum));
    for (size_t i = 0; i < size; ++i) {
      optimizer_->Step({&gradient_one[i], 1}, {&momentum_one[i], 1});
    }
    EXPECT_EQ(gradient, gradient_one) << size;
    EXPECT_EQ(momentum, momentum_one) << size;
  }
}

TEST_P(OuterOptimizerSuite, TurnsWithTheGradient) {
  std::vector<float> gradient = Values(300, 1), momentum = Values(300, 2);
  std::vector<float> negative = gradient, negative_momentum = momentum;
  for (float& value : negative) value = -value;
  for (float& value : negative_momentum) value = -value;
  optimizer_->Step(absl::MakeSpan(gradient), absl::MakeSpan(momentum));
  optimizer_->Step(absl::MakeSpan(negative), absl::MakeSpan(negative_momentum));
  for (size_t i = 0; i < gradient.size(); ++i) {
    EXPECT_EQ(gradient[i], -negative[i]);
    EXPECT_EQ(momentum[i], -negative_momentum[i]);
  }
}

}  // namespace longhaul

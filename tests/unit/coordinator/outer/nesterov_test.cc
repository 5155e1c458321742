#include "coordinator/outer/nesterov.h"

#include <vector>

#include "common/base/random.h"
#include "coordinator/outer/sum_of_squares.h"
#include "gtest/gtest.h"
#include "tests/testing/each_target.h"

namespace longhaul {
namespace {

// buf = mu * buf + D ; step = lr * (D + mu * buf), computed by hand with values that fp32 holds
// exactly.
TEST(NesterovTest, FollowsTheFormula) {
  const Nesterov nesterov(0.5f, 0.5f);
  std::vector<float> gradient = {4, -8}, momentum = {0, 2};
  nesterov.Step(absl::MakeSpan(gradient), absl::MakeSpan(momentum));
  EXPECT_EQ(momentum, (std::vector<float>{4, -7}));
  EXPECT_EQ(gradient, (std::vector<float>{3, -5.75f}));
  gradient = {2, 1};
  nesterov.Step(absl::MakeSpan(gradient), absl::MakeSpan(momentum));
  EXPECT_EQ(momentum, (std::vector<float>{4, -2.5f}));
  EXPECT_EQ(gradient, (std::vector<float>{2, -0.125f}));
}

TEST(NesterovTest, WithoutMomentumItIsPlainDescent) {
  std::vector<float> gradient = {4}, momentum = {0};
  Nesterov(2.0f, 0.0f).Step(absl::MakeSpan(gradient), absl::MakeSpan(momentum));
  EXPECT_EQ(gradient[0], 8.0f);
}

// A fused multiply-add would keep the low bits of 0.9 * 0.9 + 1.
TEST(NesterovTest, RoundsEachOperation) {
  std::vector<float> gradient = {1.0f}, momentum = {0.9f};
  Nesterov(1.0f, 0.9f).Step(absl::MakeSpan(gradient), absl::MakeSpan(momentum));
  volatile float product = 0.9f * 0.9f;
  const float buf = product + 1.0f;
  product = 0.9f * buf;
  EXPECT_EQ(momentum[0], buf);
  EXPECT_EQ(gradient[0], 1.0f + product);
}

// So that a round can be repeated on another machine.
TEST(NesterovTest, EveryInstructionSetGivesTheSameBits) {
  constexpr int kElements = 1003;
  constexpr float kRate = 0.7f, kMomentum = 0.9f;
  Random random(3);
  std::vector<float> gradient(kElements), momentum(kElements);
  for (int i = 0; i < kElements; ++i) {
    gradient[i] = static_cast<float>(random.Uniform() - 0.5);
    momentum[i] = static_cast<float>(random.Uniform() - 0.5);
  }
  std::vector<float> step(kElements), next(kElements);
  for (int i = 0; i < kElements; ++i) {
    volatile float product = kMomentum * momentum[i];
    next[i] = product + gradient[i];
    product = kMomentum * next[i];
    const volatile float sum = gradient[i] + product;
    step[i] = kRate * sum;
  }
  const double squares = SumOfSquares(gradient);
  OnEachTarget([&] {
    std::vector<float> g = gradient, m = momentum;
    EXPECT_EQ(SumOfSquares(g), squares);
    EXPECT_EQ(Nesterov(kRate, kMomentum).Step(absl::MakeSpan(g), absl::MakeSpan(m)), squares);
    EXPECT_EQ(g, step);
    EXPECT_EQ(m, next);
  });
}

}  // namespace
}  // namespace longhaul

#include "worker/optim/onebit_adam.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "common/base/random.h"
#include "worker/optim/adamw.h"
#include "worker/optim/bfloat16.h"

namespace longhaul {
namespace {

constexpr AdamWOptions kAdam{.beta1 = 0.9, .beta2 = 0.95, .eps = 1e-6, .weight_decay = 0.1};

std::vector<float> SeededNoise(uint64_t seed, int64_t size) {
  Random random(seed);
  std::vector<float> values(size);
  for (float& value : values) value = static_cast<float>(random.Uniform() - 0.5);
  return values;
}

TEST(OneBitAdamTest, IsAdamWUntilTheFreeze) {
  const std::vector<SubgroupShape> shapes = {{.elements = 333, .decay = true}, {.elements = 7}};
  OneBitAdam onebit({.adamw = kAdam, .freeze_step = 3}, shapes);
  AdamW adamw(kAdam, shapes);
  std::vector<std::vector<float>> a = {SeededNoise(1, 333), SeededNoise(2, 7)}, b = a;
  for (int step = 1; step <= 5; ++step) {
    const UpdateOptions update{.learning_rate = 0.1 / step, .gradient_scale = 0.5};
    onebit.Begin(update);
    adamw.Begin(update);
    for (int i = 0; i < 2; ++i) {
      const std::vector<float> gradients = SeededNoise(10 * step + i, shapes[i].elements);
      onebit.Submit({.subgroup = i, .parameters = absl::MakeSpan(a[i]), .gradients = gradients});
      adamw.Submit({.subgroup = i, .parameters = absl::MakeSpan(b[i]), .gradients = gradients});
    }
  }
  EXPECT_EQ(a, b);
  EXPECT_EQ(onebit.updates(), 5);
  EXPECT_EQ(onebit.frozen_at(), 0) << "the pool decides";
  EXPECT_EQ(onebit.state_bytes(), adamw.state_bytes());
}

// The equations of the header in double.
TEST(OneBitAdamTest, StepsByMomentumOnceTheVarianceIsFrozen) {
  constexpr int kElements = 300, kFrozen = 4, kSteps = 9;
  const std::vector<SubgroupShape> shapes = {{.elements = kElements, .decay = true}};
  ThreadTeam team(2);
  OneBitAdam optimizer({.adamw = kAdam}, shapes, &team);
  std::vector<float> parameters = SeededNoise(3, kElements);
  std::vector<uint16_t> shadow(kElements);
  std::vector<double> theta(parameters.begin(), parameters.end()), m(kElements), v(kElements);
  for (int step = 1; step <= kSteps; ++step) {
    const double rate = 0.01 * step;
    std::vector<float> gradients = SeededNoise(20 + step, kElements);
    const std::vector<float> given = gradients;
    if (step > kFrozen) {
      if (step == kFrozen + 1) optimizer.SetFrozenAt(kFrozen);
      optimizer.MakeMomentum(0, 2, absl::MakeSpan(gradients));
    }
    optimizer.Begin({.learning_rate = rate, .gradient_scale = 2});
    optimizer.Submit({.subgroup = 0,
                      .parameters = absl::MakeSpan(parameters),
                      .gradients = gradients,
                      .shadow = absl::MakeSpan(shadow)});
    for (int i = 0; i < kElements; ++i) {
      const double g = 2 * given[i];
      m[i] = kAdam.beta1 * m[i] + (1 - kAdam.beta1) * g;
      if (step <= kFrozen) v[i] = kAdam.beta2 * v[i] + (1 - kAdam.beta2) * g * g;
      const double m_hat = m[i] / (1 - std::pow(kAdam.beta1, step));
      const double v_hat = v[i] / (1 - std::pow(kAdam.beta2, std::min(step, kFrozen)));
      theta[i] -= rate * (m_hat / (std::sqrt(v_hat) + kAdam.eps) + kAdam.weight_decay * theta[i]);
      ASSERT_NEAR(parameters[i], theta[i], 2e-6) << "step " << step;
      ASSERT_EQ(shadow[i], ToBfloat16(parameters[i]));
    }
  }
}

// No variance to scale a step by, whatever its momentum is.
TEST(OneBitAdamTest, AnElementWithoutVarianceDecaysOnly) {
  const std::vector<SubgroupShape> shapes = {{.elements = 1, .decay = true}};
  OneBitAdam optimizer({.adamw = kAdam}, shapes);
  std::vector<float> parameter = {2};
  std::vector<float> gradient = {3};
  optimizer.SetUpdates(5);
  optimizer.SetFrozenAt(5);
  optimizer.MakeMomentum(0, 1, absl::MakeSpan(gradient));
  EXPECT_GT(gradient[0], 0);
  optimizer.Begin({.learning_rate = 0.5});
  optimizer.Submit({.subgroup = 0, .parameters = absl::MakeSpan(parameter), .gradients = gradient});
  EXPECT_FLOAT_EQ(parameter[0], 2 * (1 - 0.5 * 0.1));
}

}  // namespace
}  // namespace longhaul

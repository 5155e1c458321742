#include "worker/optim/local_steps.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "common/base/random.h"
#include "worker/optim/bfloat16.h"
#include "worker/optim/onebit_adam.h"

namespace longhaul {
namespace {

constexpr AdamWOptions kZeroOne{.beta1 = 0.9, .beta2 = 0.95, .eps = 1e-6, .weight_decay = 0.1};
constexpr int kSize = 500, kFreezeAt = 4;

std::vector<float> UniformNoise(uint64_t seed) {
  Random random(seed);
  std::vector<float> values(kSize);
  for (float& value : values) value = static_cast<float>(random.Uniform() - 0.5);
  return values;
}

// One rank: of a subgroup with decay and one without.
struct LocalRank {
  explicit LocalRank(const OneBitAdamOptions& options)
      : optimizer(
            options,
            std::vector<SubgroupShape>{{.elements = kSize, .decay = true}, {.elements = kSize}},
            &team) {}
  void Update(uint64_t seed, double rate) {
    optimizer.Begin({.learning_rate = rate, .gradient_scale = 0.5});
    for (int i = 0; i < 2; ++i) {
      optimizer.Submit({.subgroup = i,
                        .parameters = absl::MakeSpan(parameters[i]),
                        .gradients = UniformNoise(seed + i)});
    }
  }
  void Synchronize(const std::vector<std::vector<float>>& mean) {
    for (int i = 0; i < 2; ++i) {
      optimizer.Synchronize({.subgroup = i,
                             .parameters = absl::MakeSpan(parameters[i]),
                             .gradients = mean[i],
                             .shadow = absl::MakeSpan(shadow)});
      for (int e = 0; e < kSize; ++e) ASSERT_EQ(shadow[e], ToBfloat16(parameters[i][e]));
    }
    optimizer.EndSynchronization();
  }
  float Momentum(int subgroup, int element) const {
    float value = 0;
    EXPECT_TRUE(
        optimizer.ReadState(OptimizerState::kMoment, subgroup, element, absl::MakeSpan(&value, 1))
            .ok());
    return value;
  }

  ThreadTeam team{2};
  OneBitAdam optimizer;
  std::vector<std::vector<float>> parameters = {UniformNoise(1), UniformNoise(2)};
  std::vector<uint16_t> shadow = std::vector<uint16_t>(kSize);
};

// Algorithm 1 of 0/1 Adam for two ranks in double, with AdamW's corrections and decay, and an exact
// mean.
TEST(LocalStepsTest, AreAlgorithmOne) {
  const OneBitAdamOptions options{
      .adamw = kZeroOne, .local_step_scaler = 2, .local_step_clipper = 4};
  LocalRank ranks[] = {LocalRank(options), LocalRank(options)};
  const auto of = [](double value) {
    return std::vector<std::vector<double>>(2, std::vector<double>(kSize, value));
  };
  std::vector<std::vector<double>> x[] = {of(0), of(0)}, m[] = {of(0), of(0)}, u[] = {of(0), of(0)},
                                   v = of(0), before;
  for (int i = 0; i < 2; ++i)
    x[0][i] = x[1][i] = {ranks[0].parameters[i].begin(), ranks[0].parameters[i].end()};
  double kept[] = {1, 1}, rates[] = {0, 0};
  std::vector<int> synchronised;
  for (int t = 1; t <= 20; ++t) {
    const double rate = 0.002 * (25 - t);
    const bool local = t > kFreezeAt;
    for (LocalRank& rank : ranks) {
      if (t == kFreezeAt + 1) rank.optimizer.SetFrozenAt(kFreezeAt);
      ASSERT_EQ(rank.optimizer.StepsLocallyNext(), local);
    }
    if (rates[0] == 0) before = x[0];
    for (int r = 0; r < 2; ++r) {
      const uint64_t seed = local ? 100 * t + 10 * r : 100 * t;  // The same until the freeze.
      ranks[r].Update(seed, rate);
      for (int i = 0; i < 2; ++i) {
        const std::vector<float> g = UniformNoise(seed + i);
        const double keep = i == 0 ? 1 - rate * kZeroOne.weight_decay : 1;
        const double gamma = rate / (1 - std::pow(kZeroOne.beta1, t));
        const double root = std::sqrt(1 - std::pow(kZeroOne.beta2, std::min(t, kFreezeAt)));
        for (int e = 0; e < kSize; ++e) {
          m[r][i][e] = kZeroOne.beta1 * m[r][i][e] + (1 - kZeroOne.beta1) * 0.5 * g[e];
          if (!local && r == 0)
            v[i][e] = kZeroOne.beta2 * v[i][e] + (1 - kZeroOne.beta2) * 0.25 * g[e] * g[e];
          x[r][i][e] =
              keep * x[r][i][e] - gamma * m[r][i][e] / (std::sqrt(v[i][e]) / root + kZeroOne.eps);
          if (local) u[r][i][e] = keep * u[r][i][e] + gamma * m[r][i][e];
          ASSERT_NEAR(ranks[r].parameters[i][e], x[r][i][e], 2e-6) << "step " << t;
        }
        if (local && r == 0) {
          kept[i] *= keep;
          rates[i] = keep * rates[i] + gamma;
        }
      }
    }
    ASSERT_EQ(ranks[0].optimizer.SynchronizationDue(), ranks[1].optimizer.SynchronizationDue());
    // Once earlier than the schedule asks.
    if (!ranks[0].optimizer.SynchronizationDue() && t != 9) continue;
    synchronised.push_back(t);
    std::vector<std::vector<float>> mean(2, std::vector<float>(kSize));
    const double root = std::sqrt(1 - std::pow(kZeroOne.beta2, kFreezeAt));
    for (int i = 0; i < 2; ++i) {
      for (int e = 0; e < kSize; ++e) {
        mean[i][e] =
            (ranks[0].optimizer.accumulated(i)[e] + ranks[1].optimizer.accumulated(i)[e]) / 2;
        const double exact = (u[0][i][e] + u[1][i][e]) / 2;
        ASSERT_NEAR(mean[i][e], exact, 1e-7);
        m[0][i][e] = m[1][i][e] = exact / rates[i];
        x[0][i][e] = x[1][i][e] =
            kept[i] * before[i][e] - exact / (std::sqrt(v[i][e]) / root + kZeroOne.eps);
      }
      u[0][i] = u[1][i] = std::vector<double>(kSize);
      kept[i] = 1, rates[i] = 0;
    }
    for (LocalRank& rank : ranks) rank.Synchronize(mean);
    EXPECT_EQ(ranks[0].parameters, ranks[1].parameters) << "bit for bit";
    for (int i = 0; i < 2; ++i) {
      for (int e = 0; e < kSize; ++e) {
        ASSERT_NEAR(ranks[0].parameters[i][e], x[0][i][e], 2e-6) << "step " << t;
        ASSERT_NEAR(ranks[0].Momentum(i, e), m[0][i][e], 2e-6) << "step " << t;
      }
    }
  }
  // Intervals of 1 for two updates, then 2, then 4, counted from the synchronisation before.
  EXPECT_EQ(synchronised, (std::vector<int>{5, 6, 8, 9, 13, 17}));
}

TEST(LocalStepsTest, AnyNumberOfThreadsGivesTheSameBits) {
  constexpr int kMany = 100'003;
  const auto run = [](int threads) {
    ThreadTeam team(threads);
    OneBitAdam optimizer({.adamw = kZeroOne, .local_step_scaler = 9},
                         std::vector<SubgroupShape>{{.elements = kMany, .decay = true}}, &team);
    Random random(7);
    std::vector<float> parameters(kMany, 1), gradients(kMany);
    for (int step = 1; step <= 4; ++step) {
      if (step == 2) optimizer.SetFrozenAt(1);
      for (float& value : gradients) value = static_cast<float>(random.Uniform() - 0.5);
      const SubgroupUpdate update{.parameters = absl::MakeSpan(parameters), .gradients = gradients};
      optimizer.Begin({.learning_rate = 0.01});
      optimizer.Submit(update);
      if (step == 3) {
        optimizer.Synchronize(update);
        optimizer.EndSynchronization();
      }
    }
    return parameters;
  };
  EXPECT_EQ(run(3), run(1));
}

TEST(LocalStepsTest, TakeMemoryOnceTheyBegin) {
  LocalRank rank({.adamw = kZeroOne, .local_step_scaler = 1});
  rank.Update(1, 0.1);
  const int64_t before = rank.optimizer.state_bytes();
  rank.optimizer.SetFrozenAt(1);
  rank.Update(2, 0.1);
  EXPECT_EQ(rank.optimizer.state_bytes(), before + 2 * kSize * 8);
}

// The momentum is what was stepped, divided by the rates: of rates of zero nothing is known.
TEST(LocalStepsTest, RatesOfZeroLeaveNoMomentum) {
  LocalRank rank({.adamw = kZeroOne, .local_step_scaler = 9});
  rank.Update(1, 0.1);
  rank.optimizer.SetFrozenAt(1);
  const auto before = rank.parameters;
  rank.Update(2, 0);
  EXPECT_NE(rank.Momentum(0, 0), 0);
  // What error feedback still owes.
  rank.Synchronize({std::vector<float>(kSize, 1e-3f), std::vector<float>(kSize, 0)});
  EXPECT_EQ(rank.Momentum(0, 0), 0);
  EXPECT_LT(rank.parameters[0][0], before[0][0]);
  EXPECT_EQ(rank.parameters[1], before[1]);
}

TEST(LocalStepsTest, BeginAtTheEndOfTheVariancePolicy) {
  OneBitAdam optimizer({.var_update_scaler = 2, .var_freeze_step = 6, .local_step_scaler = 1},
                       std::vector<SubgroupShape>{{.elements = 1}});
  optimizer.SetFrozenAt(2);
  optimizer.SetUpdates(5);
  EXPECT_FALSE(optimizer.StepsLocallyNext());
  optimizer.SetUpdates(6);
  EXPECT_TRUE(optimizer.StepsLocallyNext());
  optimizer.StepTogether();
  EXPECT_FALSE(optimizer.StepsLocallyNext());
}

}  // namespace
}  // namespace longhaul

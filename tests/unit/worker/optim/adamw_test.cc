#include "worker/optim/adamw.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "common/base/random.h"
#include "tests/golden/engine/golden_file.h"
#include "tests/testing/each_target.h"
#include "worker/optim/bfloat16.h"

namespace longhaul {
namespace {

void ExpectNear(const std::vector<float>& actual, const std::vector<double>& expected,
                double relative) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i) {
    EXPECT_NEAR(actual[i], expected[i], relative * std::abs(expected[i])) << "element " << i;
  }
}

TEST(AdamWTest, EqualsPyTorch) {
  const GoldenFile golden("adamw.txt");
  const int64_t elements = golden.Get<int64_t>("sizes")[0], steps = golden.Get<int64_t>("sizes")[1];
  AdamW optimizer({.weight_decay = 0.1}, {{elements, true}, {elements, false}});
  std::vector<float> matrix = golden.Get("matrix"), vector = golden.Get("vector");
  for (int64_t step = 1; step <= steps; ++step) {
    const std::string suffix = "_" + std::to_string(step);
    optimizer.Begin({.learning_rate = 0.02 / static_cast<double>(step)});
    const std::vector<float> matrix_gradient = golden.Get("matrix_gradient" + suffix),
                             vector_gradient = golden.Get("vector_gradient" + suffix);
    optimizer.Submit({0, absl::MakeSpan(matrix), matrix_gradient});
    optimizer.Submit({1, absl::MakeSpan(vector), vector_gradient});
    ASSERT_TRUE(optimizer.Finish().ok());
    ExpectNear(matrix, golden.Get<double>("matrix" + suffix), 1e-6);
    ExpectNear(vector, golden.Get<double>("vector" + suffix), 1e-6);
  }
}

// What makes any number of ranks give the same bits.
TEST(AdamWTest, AnyCutGivesTheSameBits) {
  constexpr int64_t kElements = 300;
  Random random(1);
  std::vector<float> whole(kElements), gradients(kElements);
  for (float& value : whole) value = static_cast<float>(random.Uniform() - 0.5);
  for (float& value : gradients) value = static_cast<float>(random.Uniform() - 0.5);
  for (int64_t cut : {1, 15, 16, 17, 128, 299}) {
    std::vector<float> one = whole, two = whole;
    AdamW single({.weight_decay = 0.1}, {{kElements, true}});
    AdamW split({.weight_decay = 0.1}, {{cut, true}, {kElements - cut, true}});
    for (int step = 1; step <= 3; ++step) {
      const UpdateOptions options{.learning_rate = 0.01, .gradient_scale = 0.3};
      single.Begin(options);
      single.Submit({0, absl::MakeSpan(one), gradients});
      split.Begin(options);
      split.Submit({0, absl::MakeSpan(two).first(cut), absl::MakeSpan(gradients).first(cut)});
      split.Submit({1, absl::MakeSpan(two).subspan(cut), absl::MakeSpan(gradients).subspan(cut)});
    }
    EXPECT_EQ(std::memcmp(one.data(), two.data(), kElements * sizeof(float)), 0)
        << "cut at " << cut;
  }
}

struct Arrays {
  explicit Arrays(int64_t elements, uint64_t seed) {
    Random random(seed);
    const auto noise = [&] {
      std::vector<float> values(elements);
      for (float& value : values) value = static_cast<float>(random.Uniform() - 0.5);
      return values;
    };
    parameters = noise(), gradients = noise();
    shadow.resize(elements);
  }
  SubgroupUpdate update() {
    return {0, absl::MakeSpan(parameters), gradients, {}, absl::MakeSpan(shadow)};
  }
  std::vector<float> parameters, gradients;
  std::vector<uint16_t> shadow;
};

std::vector<float> State(const AdamW& optimizer, OptimizerState state, int64_t elements) {
  std::vector<float> values(elements);
  EXPECT_TRUE(optimizer.ReadState(state, 0, 0, absl::MakeSpan(values)).ok());
  return values;
}

TEST(AdamWTest, AnyNumberOfThreadsGivesTheSameBits) {
  constexpr int64_t kElements = 200'001;
  for (const MomentPrecision moments : {MomentPrecision::kFloat32, MomentPrecision::kBfloat16}) {
    const AdamWOptions options{.weight_decay = 0.1, .moments = moments};
    Arrays expected(kElements, 5);
    AdamW alone(options, {{kElements, true}});
    for (int step = 0; step < 3; ++step) {
      alone.Begin({.learning_rate = 0.01});
      alone.Submit(expected.update());
    }
    for (const int threads : {2, 3}) {
      ThreadTeam team(threads);
      Arrays arrays(kElements, 5);
      AdamW shared(options, {{kElements, true}}, &team);
      for (int step = 0; step < 3; ++step) {
        shared.Begin({.learning_rate = 0.01});
        shared.Submit(arrays.update());
      }
      EXPECT_EQ(arrays.parameters, expected.parameters);
      EXPECT_EQ(arrays.shadow, expected.shadow);
      EXPECT_EQ(State(shared, OptimizerState::kVariance, kElements),
                State(alone, OptimizerState::kVariance, kElements));
    }
  }
}

// Ranks on different machines update the same elements.
TEST(AdamWTest, EveryInstructionSetGivesTheSameBits) {
  constexpr int64_t kElements = 1003;
  for (const MomentPrecision moments : {MomentPrecision::kFloat32, MomentPrecision::kBfloat16}) {
    for (const bool narrow : {false, true}) {
      std::vector<std::vector<float>> of_targets;
      OnEachTarget([&] {
        Arrays arrays(kElements, 10);
        std::vector<uint16_t> bits;
        for (const float gradient : arrays.gradients) bits.push_back(ToBfloat16(gradient));
        AdamW optimizer({.weight_decay = 0.1, .moments = moments}, {{kElements, true}});
        for (int step = 1; step <= 20; ++step) {
          optimizer.Begin({.learning_rate = 0.01 / step, .gradient_scale = 0.3});
          SubgroupUpdate update = arrays.update();
          if (narrow) update.gradients = {}, update.narrow_gradients = bits;
          optimizer.Submit(update);
        }
        std::vector<float>& all = of_targets.emplace_back(arrays.parameters);
        for (const OptimizerState state : kOptimizerStates) {
          const std::vector<float> values = State(optimizer, state, kElements);
          all.insert(all.end(), values.begin(), values.end());
        }
        for (const uint16_t shadow : arrays.shadow) all.push_back(FromBfloat16(shadow));
        EXPECT_EQ(all, of_targets[0]);
      });
    }
  }
}

// From a certain size on, an aligned shadow is written past the caches.
TEST(AdamWTest, ALargeShadowIsTheRoundedParameters) {
  constexpr int64_t kElements = (1 << 20) + 21;
  for (const MomentPrecision moments : {MomentPrecision::kFloat32, MomentPrecision::kBfloat16}) {
    for (const int threads : {1, 2}) {
      ThreadTeam team(threads);
      Arrays arrays(kElements, 9);
      HugePageVector<uint16_t> shadow(kElements);
      AdamW optimizer({.weight_decay = 0.1, .moments = moments}, {{kElements, true}}, &team);
      for (int step = 0; step < 2; ++step) {
        optimizer.Begin({.learning_rate = 0.01});
        optimizer.Submit(
            {0, absl::MakeSpan(arrays.parameters), arrays.gradients, {}, absl::MakeSpan(shadow)});
      }
      int64_t wrong = 0;
      for (int64_t i = 0; i < kElements; ++i)
        wrong += shadow[i] != ToBfloat16(arrays.parameters[i]) ? 1 : 0;
      EXPECT_EQ(wrong, 0);
    }
  }
}

TEST(AdamWTest, Bfloat16MomentsFollowTheGradientOnTheAverage) {
  // 1 - beta2 of this gradient's square is a hundredth of a bf16 step of v: rounding to nearest
  // would leave v where it is.
  constexpr int64_t kElements = 4096;
  AdamW optimizer({.beta2 = 0.9999, .moments = MomentPrecision::kBfloat16}, {{kElements, false}});
  Arrays arrays(kElements, 6);
  EXPECT_TRUE(
      optimizer.WriteState(OptimizerState::kVariance, 0, 0, std::vector<float>(kElements, 1.0f))
          .ok());
  for (int step = 0; step < 200; ++step) {
    for (float& gradient : arrays.gradients) gradient = std::copysign(std::sqrt(2.0f), gradient);
    optimizer.Begin({.learning_rate = 0.01});
    optimizer.Submit(arrays.update());
  }
  double mean = 0;
  for (const float v : State(optimizer, OptimizerState::kVariance, kElements))
    mean += v / kElements;
  EXPECT_NEAR(mean, 2 - std::pow(0.9999, 200), 1e-3);
}

// The row of a token that does not occur: no gradient, and soon no change of the parameters.
TEST(AdamWTest, Bfloat16MomentsWithoutAGradientDecayOnTheAverage) {
  constexpr int64_t kElements = 4096;
  AdamW optimizer({.beta2 = 0.999, .moments = MomentPrecision::kBfloat16}, {{kElements, false}});
  Arrays arrays(kElements, 8);
  std::fill(arrays.gradients.begin(), arrays.gradients.end(), 0.0f);
  std::vector<float> variance(kElements);
  for (int64_t i = 0; i < kElements; ++i)
    variance[i] = 1 + static_cast<float>(i) / static_cast<float>(kElements);
  EXPECT_TRUE(optimizer.WriteState(OptimizerState::kVariance, 0, 0, variance).ok());
  for (int step = 0; step < 1000; ++step) {
    optimizer.Begin({.learning_rate = 0.01});
    optimizer.Submit(arrays.update());
  }
  double mean = 0;
  for (const float v : State(optimizer, OptimizerState::kVariance, kElements))
    mean += v / kElements;
  const double expected = 1.5 * std::pow(0.999, 1000);
  EXPECT_NEAR(mean, expected, 0.02 * expected);
}

TEST(AdamWTest, StateThatWasReadCanBeWrittenBack) {
  constexpr int64_t kElements = 1000;
  for (const MomentPrecision moments : {MomentPrecision::kFloat32, MomentPrecision::kBfloat16}) {
    Arrays arrays(kElements, 7);
    AdamW first({.moments = moments}, {{kElements, false}});
    first.Begin({.learning_rate = 0.01});
    first.Submit(arrays.update());
    AdamW second({.moments = moments}, {{kElements, false}});
    for (const OptimizerState state : kOptimizerStates) {
      const std::vector<float> values = State(first, state, kElements);
      EXPECT_TRUE(second.WriteState(state, 0, 0, absl::MakeConstSpan(values).first(300)).ok());
      EXPECT_TRUE(second.WriteState(state, 0, 300, absl::MakeConstSpan(values).subspan(300)).ok());
      EXPECT_EQ(State(second, state, kElements), values);
    }
    second.SetUpdates(first.updates());
    Arrays again = arrays;
    for (const auto& [optimizer, its] : {std::pair(&first, &arrays), {&second, &again}}) {
      optimizer->Begin({.learning_rate = 0.01});
      optimizer->Submit(its->update());
    }
    EXPECT_EQ(arrays.parameters, again.parameters);
    EXPECT_EQ(first.state_bytes(), kElements * (moments == MomentPrecision::kFloat32 ? 8 : 4));
  }
}

}  // namespace
}  // namespace longhaul

// What every AdamW promises: agreement with ReferenceAdamW within 1e-6 relative, at sizes around
// any vector width. An implementation that works in host memory instantiates OptimizerSuite with
// its maker.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <memory>
#include <vector>

#include "common/base/random.h"
#include "tests/testing/reference_adamw.h"
#include "worker/optim/bfloat16.h"

namespace longhaul {

using OptimizerMaker = std::function<std::unique_ptr<Optimizer>(
    const AdamWOptions& options, absl::Span<const SubgroupShape> subgroups)>;

class OptimizerSuite : public testing::TestWithParam<OptimizerMaker> {
 protected:
  static std::vector<float> Noise(Random& random, int64_t size, double scale) {
    std::vector<float> values(size);
    for (float& value : values) value = static_cast<float>(scale * (random.Uniform() - 0.5));
    return values;
  }

  // The bound is relative to the parameter or to a unit of the rate, since a bound relative to a
  // parameter near zero would be too strict.
  static void ExpectClose(const std::vector<float>& actual, const std::vector<float>& expected) {
    for (size_t i = 0; i < actual.size(); ++i) {
      ASSERT_NEAR(actual[i], expected[i], 1e-6 * std::max(std::abs(expected[i]), 0.1f))
          << i << " of " << actual.size();
    }
  }
};

TEST_P(OptimizerSuite, AgreesWithTheReference) {
  const AdamWOptions options{.beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .weight_decay = 0.1};
  for (int64_t size : {0, 1, 3, 4, 7, 8, 9, 15, 16, 17, 127, 128, 129, 4099}) {
    const std::vector<SubgroupShape> subgroups = {{size, true}, {size, false}};
    const auto optimizer = GetParam()(options, subgroups);
    ReferenceAdamW reference(options, subgroups);
    Random random(static_cast<uint64_t>(size));
    std::vector<float> decayed = Noise(random, size, 1), plain = Noise(random, size, 1);
    std::vector<float> expected_decayed = decayed, expected_plain = plain;
    for (int step = 1; step <= 8; ++step) {
      const UpdateOptions update{.learning_rate = 0.01 / step,
                                 .gradient_scale = step % 2 == 0 ? 0.25 : 1};
      const std::vector<float> g1 = Noise(random, size, std::pow(10, -step)),
                               g2 = Noise(random, size, 10);
      optimizer->Begin(update);
      optimizer->Submit({0, absl::MakeSpan(decayed), g1});
      optimizer->Submit({1, absl::MakeSpan(plain), g2});
      ASSERT_TRUE(optimizer->Finish().ok());
      EXPECT_TRUE(optimizer->Settled(0) && optimizer->Settled(1));
      reference.Begin(update);
      reference.Update(0, absl::MakeSpan(expected_decayed), g1);
      reference.Update(1, absl::MakeSpan(expected_plain), g2);
      ExpectClose(decayed, expected_decayed);
      ExpectClose(plain, expected_plain);
    }
  }
}

// Gradients are exact bf16 numbers. The shadow is the rounded parameters.
TEST_P(OptimizerSuite, ReadsNarrowGradientsAndWritesTheShadow) {
  for (int64_t size : {1, 15, 16, 17, 1000}) {
    Random random(static_cast<uint64_t>(size));
    std::vector<float> wide = Noise(random, size, 1), narrow = wide, gradients;
    std::vector<uint16_t> bits, shadow(size);
    for (const float value : Noise(random, size, 1)) {
      bits.push_back(ToBfloat16(value));
      gradients.push_back(FromBfloat16(bits.back()));
    }
    const std::vector<SubgroupShape> subgroups = {{size, true}};
    const auto one = GetParam()({.weight_decay = 0.1}, subgroups);
    const auto other = GetParam()({.weight_decay = 0.1}, subgroups);
    for (int step = 1; step <= 3; ++step) {
      const UpdateOptions update{.learning_rate = 0.01, .gradient_scale = 0.5};
      one->Begin(update);
      one->Submit({.parameters = absl::MakeSpan(wide), .gradients = gradients});
      other->Begin(update);
      other->Submit({.parameters = absl::MakeSpan(narrow),
                     .narrow_gradients = bits,
                     .shadow = absl::MakeSpan(shadow)});
      ASSERT_TRUE(one->Finish().ok() && other->Finish().ok());
      EXPECT_EQ(wide, narrow);
      for (int64_t i = 0; i < size; ++i) EXPECT_EQ(shadow[i], ToBfloat16(narrow[i]));
    }
  }
}

TEST_P(OptimizerSuite, ZeroGradientsDecayOnly) {
  const std::vector<SubgroupShape> subgroups = {{1, true}, {1, false}};
  const auto optimizer = GetParam()({.weight_decay = 0.5}, subgroups);
  std::vector<float> decayed = {2}, plain = {2};
  const std::vector<float> zero = {0};
  optimizer->Begin({.learning_rate = 0.1});
  optimizer->Submit({0, absl::MakeSpan(decayed), zero});
  optimizer->Submit({1, absl::MakeSpan(plain), zero});
  ASSERT_TRUE(optimizer->Finish().ok());
  EXPECT_FLOAT_EQ(decayed[0], 2 * (1 - 0.1 * 0.5));
  EXPECT_EQ(plain[0], 2);
}

// The first step of Adam has the size of the learning rate, for any gradient.
TEST_P(OptimizerSuite, TheFirstStepHasTheSizeOfTheRate) {
  const std::vector<SubgroupShape> subgroups = {{2, false}};
  const auto optimizer = GetParam()({}, subgroups);
  std::vector<float> parameters = {1, 1};
  const std::vector<float> gradients = {1e-3f, -1e3f};
  optimizer->Begin({.learning_rate = 0.25});
  optimizer->Submit({0, absl::MakeSpan(parameters), gradients});
  ASSERT_TRUE(optimizer->Finish().ok());
  EXPECT_NEAR(parameters[0], 0.75, 1e-5);
  EXPECT_NEAR(parameters[1], 1.25, 1e-5);
}

}  // namespace longhaul

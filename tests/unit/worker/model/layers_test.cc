#include "worker/model/layers.h"

#include <gtest/gtest.h>

#include <cmath>

#include "ATen/TensorOperators.h"
#include "ATen/ops/allclose.h"
#include "ATen/ops/arange.h"
#include "ATen/ops/cat.h"
#include "ATen/ops/equal.h"
#include "ATen/ops/full.h"
#include "ATen/ops/ones.h"
#include "ATen/ops/zeros.h"
#include "tests/testing/random_tensor.h"
#include "torch/csrc/autograd/autograd.h"

namespace longhaul {
namespace {

TEST(LayersTest, RmsNormGivesUnitMeanSquare) {
  const at::Tensor x = RandomNormal({3, 16}) * 5;
  const at::Tensor y = RmsNorm(x, at::full({16}, 2.0), 1e-5);
  EXPECT_TRUE(at::allclose(y.pow(2).mean(-1), at::full({3}, 4.0), 1e-4));
}

TEST(LayersTest, RmsNormKeepsThePrecisionOfItsInput) {
  const at::Tensor y = RmsNorm(RandomNormal({3, 16}).to(at::kBFloat16), at::ones({16}), 1e-5);
  EXPECT_EQ(y.scalar_type(), at::kBFloat16);
}

TEST(LayersTest, RotationKeepsNormsAndDependsOnDistanceOnly) {
  const RotaryTables tables = MakeRotaryTables(10, 8, 10000, {}, at::kCPU);
  const at::Tensor q = RandomNormal({1, 1, 1, 8}, 1).expand({1, 1, 10, 8}),
                   k = RandomNormal({1, 1, 1, 8}, 2).expand({1, 1, 10, 8});
  const at::Tensor rotated_q = Rotate(q, tables), rotated_k = Rotate(k, tables);
  EXPECT_TRUE(at::allclose(rotated_q.norm(2, -1), q.norm(2, -1), 1e-5));
  const auto score = [&](int at_q, int at_k) {
    return rotated_q[0][0][at_q].dot(rotated_k[0][0][at_k]).item<float>();
  };
  EXPECT_NEAR(score(5, 2), score(9, 6), 1e-4);
  EXPECT_TRUE(at::equal(rotated_q.select(2, 0), q.select(2, 0)));  // Position 0 is not rotated.
}

TEST(LayersTest, RotationPairsAnElementWithOneHalfAHeadAway) {
  const RotaryTables tables = MakeRotaryTables(2, 4, 10000, {}, at::kCPU);
  at::Tensor x = at::zeros({1, 1, 2, 4});
  x[0][0][1][0] = 1;
  const at::Tensor y = Rotate(x, tables)[0][0][1];
  EXPECT_NEAR(y[0].item<float>(), std::cos(1.0), 1e-6);
  EXPECT_NEAR(y[2].item<float>(), std::sin(1.0), 1e-6);
  EXPECT_EQ(y[1].item<float>(), 0);
}

TEST(LayersTest, RotationHasTheBitsOfItsFormula) {
  const RotaryTables wide = MakeRotaryTables(10, 8, 10000, {}, at::kCPU);
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    const RotaryTables tables = InPrecision(wide, type);
    const at::Tensor x = RandomNormal({2, 3, 10, 8}, 3).to(type).requires_grad_();
    const at::Tensor y = RandomNormal({2, 3, 10, 8}, 4).to(type);
    const auto halves = x.chunk(2, -1);
    const at::Tensor expected =
        x * tables.cos_TW + at::cat({-halves[1], halves[0]}, -1) * tables.sin_TW;
    for (const RotaryTables& given : {wide, tables})
      EXPECT_TRUE(at::equal(Rotate(x, given), expected));
    const auto gradient = [&](const at::Tensor& of) {
      return torch::autograd::grad({of}, {x}, {y}, /*retain_graph=*/true)[0];
    };
    EXPECT_TRUE(at::equal(gradient(Rotate(x, tables)), gradient(expected)));
  }
}

// The angle by which element 0 .. W/2 - 1 of a head turns at position 1.
std::vector<double> Turns(const RopeScaling& scaling) {
  const RotaryTables tables = MakeRotaryTables(2, 64, 10000, scaling, at::kCPU);
  std::vector<double> turns;
  for (int i = 0; i < 32; ++i) {
    turns.push_back(
        std::atan2(tables.sin_TW[1][i].item<float>(), tables.cos_TW[1][i].item<float>()));
  }
  return turns;
}

TEST(LayersTest, ScalingSlowsWhatTurnsSlowly) {
  const std::vector<double> plain = Turns({}),
                            linear = Turns({.kind = RopeScaling::Kind::kLinear, .factor = 4}),
                            llama3 = Turns({.kind = RopeScaling::Kind::kLlama3,
                                            .factor = 8,
                                            .low_freq_factor = 1,
                                            .high_freq_factor = 4,
                                            .original_context = 256});
  for (int i = 0; i < 32; ++i) {
    EXPECT_NEAR(linear[i], plain[i] / 4, 1e-6);
    const double turns = 256 * plain[i] / (2 * M_PI);  // Within the original context.
    if (turns > 4) {
      EXPECT_NEAR(llama3[i], plain[i], 1e-6) << i;
    } else if (turns < 1) {
      EXPECT_NEAR(llama3[i], plain[i] / 8, 1e-6) << i;
    } else {
      EXPECT_LT(llama3[i], plain[i]);
      EXPECT_GT(llama3[i], plain[i] / 8);
    }
  }
}

TEST(LayersTest, AttentionIsCausalAndGroupsHeads) {
  const at::Tensor q = RandomNormal({2, 4, 5, 8}, 1), k = RandomNormal({2, 2, 5, 8}, 2),
                   v = RandomNormal({2, 2, 5, 8}, 3);
  const at::Tensor y = CausalAttention(q, k, v);
  EXPECT_EQ(y.sizes(), (std::vector<int64_t>{2, 5, 32}));
  // The first position sees itself alone: heads 0 and 1 read the first value head, 2 and 3 the
  // second.
  EXPECT_TRUE(at::allclose(y[1][0].narrow(0, 8, 8), v[1][0][0], 1e-5));
  EXPECT_TRUE(at::allclose(y[1][0].narrow(0, 16, 8), v[1][1][0], 1e-5));
  at::Tensor changed = v.clone();
  changed.select(2, 4).zero_();
  EXPECT_TRUE(at::allclose(CausalAttention(q, k, changed).narrow(1, 0, 4), y.narrow(1, 0, 4)));
}

TEST(LayersTest, AttentionKeepsToDocuments) {
  const at::Tensor q = RandomNormal({2, 4, 5, 8}, 1), k = RandomNormal({2, 2, 5, 8}, 2),
                   v = RandomNormal({2, 2, 5, 8}, 3);
  at::Tensor starts = at::zeros({2, 5}, at::kLong);
  const at::Tensor one = CausalAttention(q, k, v);
  EXPECT_TRUE(
      at::allclose(CausalAttention(q, k, v, DocumentMask(starts, at::kFloat)), one, 1e-4, 1e-5));
  starts.narrow(1, 2, 3).fill_(2);  // Two positions, then three.
  const at::Tensor y = CausalAttention(q, k, v, DocumentMask(starts, at::kFloat));
  for (const auto& [first, count] : {std::pair<int64_t, int64_t>{0, 2}, {2, 3}}) {
    const at::Tensor alone = CausalAttention(q.narrow(2, first, count), k.narrow(2, first, count),
                                             v.narrow(2, first, count));
    EXPECT_TRUE(at::allclose(y.narrow(1, first, count), alone, 1e-4, 1e-5)) << first;
  }
}

TEST(LayersTest, CrossEntropyOfEqualLogitsIsTheLogarithmOfTheirNumber) {
  const at::Tensor loss = CrossEntropySum(at::zeros({2, 3, 10}), at::zeros({2, 3}, at::kLong));
  EXPECT_NEAR(loss.item<double>(), 6 * std::log(10.0), 1e-5);
}

}  // namespace
}  // namespace longhaul

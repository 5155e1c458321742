#include "worker/model/head_loss.h"

#include <gtest/gtest.h>

#include <cmath>

#include "ATen/TensorOperators.h"
#include "ATen/core/grad_mode.h"
#include "ATen/ops/allclose.h"
#include "ATen/ops/arange.h"
#include "ATen/ops/equal.h"
#include "ATen/ops/full.h"
#include "ATen/ops/linear.h"
#include "ATen/ops/log_softmax.h"
#include "ATen/ops/tensor.h"
#include "ATen/ops/zeros.h"
#include "tests/testing/random_tensor.h"
#include "torch/csrc/autograd/autograd.h"
#include "worker/model/layers.h"

namespace longhaul {
namespace {

constexpr int64_t kVocab = 7;

struct Loss {
  at::Tensor sum, of_x, of_head;
};

// The loss times a scale, and its gradients. logits_max 0: of the functions in layers.h.
Loss Compute(at::ScalarType precision, int64_t logits_max) {
  const at::Tensor x = RandomNormal({2, 5, 4}, 1).to(precision).requires_grad_();
  const at::Tensor head = RandomNormal({kVocab, 4}, 2).to(precision).requires_grad_();
  const at::Tensor targets = at::arange(10, at::kLong).reshape({2, 5}).remainder(kVocab);
  const at::Tensor sum = logits_max > 0
                             ? HeadLossSum(x, head, targets, logits_max)
                             : CrossEntropySum(at::linear(x, head).to(at::kFloat), targets);
  const auto gradients = torch::autograd::grad({sum}, {x, head}, {at::full({}, 0.125f)});
  EXPECT_EQ(gradients[0].scalar_type(), precision);
  EXPECT_EQ(gradients[1].scalar_type(), precision);
  return {sum.detach(), gradients[0], gradients[1]};
}

// One row at a time; uneven parts; all at once.
TEST(HeadLossTest, IsThatOfAllLogitsAtOnce) {
  for (const at::ScalarType precision : {at::kFloat, at::kBFloat16}) {
    const double relative = precision == at::kFloat ? 1e-6 : 1e-2;
    const Loss expected = Compute(precision, 0);
    for (const int64_t logits : {int64_t{1}, 3 * kVocab, 4 * kVocab + 3, kLogitsMax}) {
      const Loss actual = Compute(precision, logits);
      EXPECT_TRUE(at::allclose(actual.sum, expected.sum, 1e-6)) << logits;
      EXPECT_TRUE(at::allclose(actual.of_x, expected.of_x, relative, relative)) << logits;
      EXPECT_TRUE(at::allclose(actual.of_head, expected.of_head, relative, relative)) << logits;
    }
  }
}

// The loss of the rows that count, taken out by torch itself. The others may be anything.
TEST(HeadLossTest, AMaskLeavesRowsOut) {
  const at::Tensor kept = at::tensor({0, 1, 4, 6, 9}, at::kLong);
  at::Tensor mask = at::zeros({2, 5}, at::kBool);
  mask.view(-1).index_fill_(0, kept, true);
  const at::Tensor targets = at::arange(10, at::kLong).reshape({2, 5}).remainder(kVocab);
  for (const at::ScalarType precision : {at::kFloat, at::kBFloat16}) {
    const double relative = precision == at::kFloat ? 1e-6 : 1e-2;
    const at::Tensor x = RandomNormal({2, 5, 4}, 1).to(precision);
    x[0][2].fill_(3e38);  // Its logits are not finite.
    x.requires_grad_();
    const at::Tensor head = RandomNormal({kVocab, 4}, 2).to(precision).requires_grad_();
    const at::Tensor log_p =
        at::log_softmax(at::linear(x.flatten(0, 1).index_select(0, kept), head).to(at::kFloat), -1);
    const at::Tensor expected =
        -log_p.gather(1, targets.flatten().index_select(0, kept).unsqueeze(1)).sum();
    const auto of_expected = torch::autograd::grad({expected}, {x, head}, {at::full({}, 0.125f)});
    for (const int64_t logits : {int64_t{0}, int64_t{1}, 3 * kVocab, kLogitsMax}) {
      SCOPED_TRACE(logits);
      const at::Tensor sum =
          logits == 0 ? CrossEntropySum(at::linear(x, head).to(at::kFloat), targets, mask)
                      : HeadLossSum(x, head, targets, logits, mask);
      EXPECT_TRUE(at::allclose(sum, expected, 1e-6));
      // Where logits are not finite, torch's own softmax has no gradient but NaN.
      if (logits == 0) continue;
      const auto gradients = torch::autograd::grad({sum}, {x, head}, {at::full({}, 0.125f)});
      EXPECT_TRUE(at::allclose(gradients[0], of_expected[0], relative, relative));
      EXPECT_TRUE(at::allclose(gradients[1], of_expected[1], relative, relative));
      EXPECT_TRUE(at::equal(HeadLossSum(x.detach(), head.detach(), targets, kLogitsMax, mask),
                            HeadLossSum(x, head, targets, kLogitsMax, mask)));
    }
  }
}

TEST(HeadLossTest, WithoutGradientsItIsTheSame) {
  const at::Tensor x = RandomNormal({1, 6, 4}, 1), head = RandomNormal({kVocab, 4}, 2);
  const at::Tensor targets = at::full({1, 6}, 3, at::kLong);
  const at::Tensor loss = HeadLossSum(x, head, targets, 2 * kVocab);
  EXPECT_FALSE(loss.requires_grad());
  EXPECT_TRUE(at::allclose(loss, CrossEntropySum(at::linear(x, head), targets)));
  const at::NoGradGuard no_grad;
  EXPECT_TRUE(at::equal(HeadLossSum(x.requires_grad_(), head, targets, 2 * kVocab), loss));
}

// One token is certain, and another one impossible.
TEST(HeadLossTest, LargeLogitsStayFinite) {
  const at::Tensor x = at::full({1, 2, 1}, 1e4).requires_grad_();
  const at::Tensor head = at::arange(kVocab, at::kFloat).unsqueeze(1);
  const at::Tensor loss = HeadLossSum(x, head, at::full({1, 2}, 0, at::kLong));
  EXPECT_EQ(loss.item<float>(), 2 * 6e4f);
  EXPECT_TRUE(at::equal(torch::autograd::grad({loss}, {x})[0], at::full({1, 2, 1}, 6.0)));
}

TEST(HeadLossTest, WhatIsNotFiniteIsTold) {
  at::Tensor x = RandomNormal({1, 3, 4}, 1);
  x[0][1][2] = std::nanf("");
  const at::Tensor loss =
      HeadLossSum(x, RandomNormal({kVocab, 4}, 2), at::full({1, 3}, 0, at::kLong));
  EXPECT_TRUE(std::isnan(loss.item<float>()));
}

}  // namespace
}  // namespace longhaul

#include "worker/model/head_loss.h"

#include <gtest/gtest.h>

#include <cmath>

#include "ATen/TensorOperators.h"
#include "ATen/ops/allclose.h"
#include "ATen/ops/arange.h"
#include "ATen/ops/equal.h"
#include "ATen/ops/full.h"
#include "ATen/ops/full_like.h"
#include "ATen/ops/linear.h"
#include "ATen/ops/log_softmax.h"
#include "ATen/ops/mm.h"
#include "ATen/ops/one_hot.h"
#include "ATen/ops/softmax.h"
#include "ATen/ops/tensor.h"
#include "ATen/ops/zeros.h"
#include "tests/testing/random_tensor.h"
#include "torch/csrc/autograd/autograd.h"
#include "worker/model/layers.h"

namespace longhaul {
namespace {

constexpr int64_t kVocab = 7;

constexpr float kScale = 0.125f;

struct Loss {
  at::Tensor sum, of_x, of_head;
};

// The loss, and the gradients of kScale times it. logits_max -1: of the functions in layers.h.
Loss Compute(const at::Tensor& x, const at::Tensor& head, const at::Tensor& targets,
             const at::Tensor& mask, int64_t logits_max) {
  if (logits_max >= 0) {
    const at::Tensor of_head = at::full_like(head, std::nanf(""), at::kFloat);
    const HeadLoss loss = DifferentiateHeadLoss(x, head, targets, mask, at::full({}, kScale),
                                                {.values = of_head}, logits_max);
    EXPECT_EQ(loss.of_x.scalar_type(), x.scalar_type());
    EXPECT_TRUE(at::equal(HeadLossSum(x, head, targets, mask, logits_max), loss.sum));
    return {loss.sum, loss.of_x, of_head};
  }
  const at::Tensor leaf = x.detach().requires_grad_(), table = head.detach().requires_grad_();
  const at::Tensor sum = CrossEntropySum(at::linear(leaf, table).to(at::kFloat), targets, mask);
  const auto gradients = torch::autograd::grad({sum}, {leaf, table}, {at::full({}, kScale)});
  return {sum.detach(), gradients[0], gradients[1].to(at::kFloat)};
}

Loss Compute(at::ScalarType precision, int64_t logits_max) {
  return Compute(RandomNormal({2, 5, 4}, 1).to(precision),
                 RandomNormal({kVocab, 4}, 2).to(precision),
                 at::arange(10, at::kLong).reshape({2, 5}).remainder(kVocab), {}, logits_max);
}

// One row at a time; uneven parts; all at once.
TEST(HeadLossTest, IsThatOfAllLogitsAtOnce) {
  for (const at::ScalarType precision : {at::kFloat, at::kBFloat16}) {
    const double relative = precision == at::kFloat ? 1e-6 : 1e-2;
    const Loss expected = Compute(precision, -1);
    for (const int64_t logits : {int64_t{1}, 3 * kVocab, 4 * kVocab + 3, int64_t{0}}) {
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
    const auto of_expected = torch::autograd::grad({expected}, {x, head}, {at::full({}, kScale)});
    // Where logits are not finite, torch's own softmax has no gradient but NaN.
    EXPECT_TRUE(
        at::allclose(CrossEntropySum(at::linear(x, head).to(at::kFloat), targets, mask).detach(),
                     expected, 1e-6));
    for (const int64_t logits : {int64_t{1}, 3 * kVocab, int64_t{0}}) {
      SCOPED_TRACE(logits);
      const Loss actual = Compute(x.detach(), head.detach(), targets, mask, logits);
      EXPECT_TRUE(at::allclose(actual.sum, expected, 1e-6));
      EXPECT_TRUE(at::allclose(actual.of_x, of_expected[0], relative, relative));
      EXPECT_TRUE(at::allclose(actual.of_head, of_expected[1].to(at::kFloat), relative, relative));
    }
  }
}

// Of many rows, each with a small part: bf16 would lose most of the digits, and so would a sum of
// rounded parts. What was there before stays.
TEST(HeadLossTest, TheGradientOfTheHeadIsSummedInFloat32WhereItBelongs) {
  constexpr int64_t kRows = 600;
  const at::Tensor x = RandomNormal({1, kRows, 4}, 1).to(at::kBFloat16);
  const at::Tensor head = RandomNormal({kVocab, 4}, 2).to(at::kBFloat16);
  const at::Tensor targets = at::arange(kRows, at::kLong).reshape({1, kRows}).remainder(kVocab);
  const at::Tensor p = at::softmax(at::linear(x[0], head).to(at::kFloat), -1);
  const at::Tensor of_logits =
      (p - at::one_hot(targets[0], kVocab)).mul(kScale).to(at::kBFloat16).to(at::kDouble);
  const at::Tensor expected = at::mm(of_logits.t(), x[0].to(at::kDouble)) + 3;
  for (const int64_t logits : {100 * kVocab, int64_t{0}}) {
    const at::Tensor of_head = at::full_like(head, 3, at::kFloat);
    DifferentiateHeadLoss(x, head, targets, {}, at::full({}, kScale),
                          {.values = of_head, .add = true}, logits);
    EXPECT_LT((of_head - expected).abs().max().item<double>(), 1e-4) << logits;
  }
}

TEST(HeadLossTest, AutogradDoesNotSeeTheSum) {
  const at::Tensor x = RandomNormal({1, 6, 4}, 1), head = RandomNormal({kVocab, 4}, 2);
  const at::Tensor targets = at::full({1, 6}, 3, at::kLong);
  const at::Tensor loss = HeadLossSum(x.requires_grad_(), head, targets, {}, 2 * kVocab);
  EXPECT_FALSE(loss.requires_grad());
  EXPECT_TRUE(at::allclose(loss, CrossEntropySum(at::linear(x, head), targets).detach()));
}

// One token is certain, and another one impossible.
TEST(HeadLossTest, LargeLogitsStayFinite) {
  const Loss loss = Compute(at::full({1, 2, 1}, 1e4), at::arange(kVocab, at::kFloat).unsqueeze(1),
                            at::full({1, 2}, 0, at::kLong), {}, 0);
  EXPECT_EQ(loss.sum.item<float>(), 2 * 6e4f);
  EXPECT_TRUE(at::equal(loss.of_x, at::full({1, 2, 1}, 6.0 * kScale)));
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

#include "worker/model/link_scores.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "ATen/TensorOperators.h"
#include "ATen/ops/tensor.h"
#include "ATen/ops/zeros.h"
#include "tests/testing/random_tensor.h"
#include "torch/csrc/autograd/autograd.h"
#include "worker/model/graph_batch.h"

namespace longhaul {
namespace {

at::Tensor Places(const std::vector<int64_t>& values) { return at::tensor(values, at::kLong); }

StagedBatch PairsBatch(int64_t pairs, const std::vector<int64_t>& uncounted = {},
                       const std::vector<int64_t>& group_ends = {}) {
  StagedBatch batch{.tensors = std::vector<at::Tensor>(kGraphTensors), .examples = pairs};
  batch.tensors[kUncounted] = Places(uncounted);
  if (!group_ends.empty()) batch.tensors[kGroupEnds] = Places(group_ends);
  return batch;
}

std::vector<double> SumsOf(const std::vector<float>& rows, const StagedBatch& batch) {
  const at::Tensor sums =
      SumsOfLinks(at::tensor(rows).view({static_cast<int64_t>(rows.size()), 1}), batch);
  std::vector<double> values;
  for (int64_t i = 0; i < sums.size(0); ++i) values.push_back(sums[i].item<double>());
  return values;
}

void ExpectSums(const std::vector<double>& sums, double auc, double mrr, double hits_1,
                double hits_3, double hits_10) {
  const std::vector<double> expected = {auc, mrr, hits_1, hits_3, hits_10};
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(sums[i + 1], expected[i], 1e-5) << i;
}

double Softplus(double x) { return std::log1p(std::exp(x)); }

TEST(LinkScoresTest, RanksAreThoseAmongTheNegatives) {
  // The source is 1, so scores are the values: the pair's, then four negatives, two above, one
  // equal.
  const std::vector<double> sums = SumsOf({1, 2, 3, 4, 2, 1}, PairsBatch(1));
  ExpectSums(sums, (1 + 0.5) / 4, 1 / 3.5, 0, 0, 1);
  EXPECT_NEAR(sums[0],
              (Softplus(-2) + (Softplus(3) + Softplus(4) + Softplus(2) + Softplus(1)) / 4) / 2,
              1e-5);
}

TEST(LinkScoresTest, EachPairHasItsOwnNegatives) {
  // Sources 1 and 2, targets 3 and 1, two negatives each.
  ExpectSums(SumsOf({1, 2, 3, 1, 1, 2, 3, 4}, PairsBatch(2)), 1 + 0, 1 + 1 / 3.0, 1, 2, 2);
}

TEST(LinkScoresTest, GroupsHaveNegativesInCommon) {
  // Three pairs in two groups: the negatives 0 and 5, then 5 and 6.
  ExpectSums(SumsOf({1, 1, 1, 2, 6, 5.5, 0, 5, 5, 6}, PairsBatch(3, {}, {2, 3})), 0.5 + 1 + 0.5,
             0.5 + 1 + 0.5, 1, 3, 3);
}

TEST(LinkScoresTest, LinkedNegativesDoNotCount) {
  const std::vector<double> sums = SumsOf({1, 2, 9, 1, 9}, PairsBatch(1, {0, 2}));
  ExpectSums(sums, 1, 1, 1, 1, 1);
  EXPECT_NEAR(sums[0], (Softplus(-2) + Softplus(1)) / 2, 1e-5);
  // None is left.
  ExpectSums(SumsOf({1, 2, 9}, PairsBatch(1, {0})), 0.5, 1, 1, 1, 1);
}

TEST(LinkScoresTest, ScoresOfZeroAreTies) {
  const std::vector<double> sums = SumsOf(std::vector<float>(2 + 20, 0), PairsBatch(1));
  ExpectSums(sums, 0.5, 1 / 11.0, 0, 0, 0);
  EXPECT_NEAR(sums[0], std::log(2), 1e-6);
}

TEST(LinkScoresTest, NoNumberIsNoSuccess) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  std::vector<float> rows(2 + 20, nan);
  ExpectSums(SumsOf(rows, PairsBatch(1)), 0, 1 / 21.0, 0, 0, 0);
  rows[0] = 1;
  rows[1] = 1;
  ExpectSums(SumsOf(rows, PairsBatch(1)), 0, 1 / 21.0, 0, 0, 0);
}

TEST(LinkScoresTest, TheLossHasTheGradientOfThePlainFormula) {
  const at::Tensor rows = RandomNormal({4 + 6, 5}, 3).requires_grad_();
  const at::Tensor loss = SumsOfLinks(rows, PairsBatch(2, {1}))[0];
  at::Tensor plain = at::zeros({});
  for (int64_t pair = 0; pair < 2; ++pair) {
    const at::Tensor source = rows[pair];
    plain = plain - (source * rows[2 + pair]).sum().sigmoid().log() / 2;
    for (int64_t i = 0; i < 3; ++i) {
      if (pair == 0 && i == 1) continue;
      const at::Tensor score = (source * rows[4 + 3 * pair + i]).sum();
      plain = plain - (-score).sigmoid().log() / (pair == 0 ? 2 : 3) / 2;
    }
  }
  EXPECT_NEAR(loss.item<double>(), plain.item<double>(), 1e-4);
  const at::Tensor ours = torch::autograd::grad({loss}, {rows})[0];
  const at::Tensor theirs = torch::autograd::grad({plain}, {rows})[0];
  EXPECT_LT((ours - theirs).abs().max().item<double>(), 1e-5);
}

}  // namespace
}  // namespace longhaul

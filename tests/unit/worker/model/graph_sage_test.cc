#include "worker/model/graph_sage.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "ATen/Parallel.h"
#include "ATen/TensorOperators.h"
#include "ATen/core/grad_mode.h"
#include "ATen/ops/allclose.h"
#include "ATen/ops/arange.h"
#include "ATen/ops/equal.h"
#include "ATen/ops/log_softmax.h"
#include "ATen/ops/stack.h"
#include "ATen/ops/tensor.h"
#include "ATen/ops/zeros.h"
#include "tests/testing/random_tensor.h"
#include "torch/csrc/autograd/autograd.h"
#include "worker/model/aggregation.h"
#include "worker/model/graph_batch.h"

namespace longhaul {
namespace {

at::Tensor Whole(const std::vector<int64_t>& values) { return at::tensor(values, at::kLong); }

// Two layers. Seeds are rows 0 and 1; row 1 has no neighbors in any hop. Level 1 is row 2 to 4,
// level 2 row 5 to 6.
StagedBatch SmallBatch(int64_t columns) {
  StagedBatch batch{.tensors = std::vector<at::Tensor>(kGraphTensors), .examples = 3};
  batch.tensors[kFeatures] = RandomNormal({7, columns}, 1);
  batch.tensors[kNodes] = Whole({70, 10, 20, 30, 40, 50, 60});
  batch.tensors[kLevelEnds] = Whole({2, 5, 7});
  batch.tensors[kIndptr] = Whole({0, 3, 3, 5, 6, 6});
  batch.tensors[kSourceRows] = at::tensor(std::vector<int32_t>{2, 3, 4, 5, 6, 6}, at::kInt);
  // A seed twice.
  batch.tensors[kSeedRows] = Whole({1, 0, 0});
  batch.tensors[kLabels] = Whole({2, 0, 0});
  return batch;
}

// The plain formula, row by row.
at::Tensor Neighbors(const at::Tensor& x, const StagedBatch& batch, int64_t target,
                     GraphAggregator aggregator) {
  const int64_t* const indptr = batch.tensors[kIndptr].const_data_ptr<int64_t>();
  std::vector<at::Tensor> rows;
  for (int64_t i = indptr[target]; i < indptr[target + 1]; ++i)
    rows.push_back(x[batch.tensors[kSourceRows].const_data_ptr<int32_t>()[i]]);
  if (rows.empty()) return at::zeros({x.size(1)});
  const at::Tensor all = at::stack(rows);
  if (aggregator == GraphAggregator::kMax) return std::get<0>(all.max(0));
  return aggregator == GraphAggregator::kSum ? all.sum(0) : all.mean(0);
}

at::Tensor PlainLoss(const GraphSageShape& shape,
                     const std::vector<std::vector<at::Tensor>>& weights,
                     const StagedBatch& batch) {
  at::Tensor x = batch.tensors[kFeatures];
  for (int layer = 0; layer < shape.layers(); ++layer) {
    const int64_t targets = layer == 0 ? 5 : 2;
    std::vector<at::Tensor> rows;
    for (int64_t target = 0; target < targets; ++target) {
      rows.push_back(
          weights[layer][kSelfWeight].mv(x[target]) +
          weights[layer][kNeighborWeight].mv(Neighbors(x, batch, target, shape.aggregator)) +
          weights[layer][kSelfBias]);
      if (layer + 1 < shape.layers()) rows.back() = rows.back().clamp_min(0);
    }
    x = at::stack(rows);
  }
  const at::Tensor log_p = at::log_softmax(x, 1);
  at::Tensor loss = at::zeros({});
  for (int64_t i = 0; i < batch.examples; ++i) {
    const int64_t label = batch.tensors[kLabels][i].item<int64_t>();
    if (label >= 0) loss = loss - log_p[batch.tensors[kSeedRows][i].item<int64_t>()][label];
  }
  return loss;
}

std::vector<std::vector<at::Tensor>> RandomWeights(const GraphSage& model) {
  std::vector<std::vector<at::Tensor>> weights;
  for (const UnitLayout& unit : model.layout().units) {
    weights.emplace_back();
    for (const TensorLayout& tensor : unit.tensors)
      weights.back().push_back(
          RandomNormal(tensor.shape, 10 + static_cast<int>(weights.size())).requires_grad_());
  }
  return weights;
}

at::Tensor Sums(const GraphSage& model, const std::vector<std::vector<at::Tensor>>& weights,
                const StagedBatch& batch) {
  at::Tensor x;
  for (int unit = 0; unit < static_cast<int>(weights.size()); ++unit)
    x = model.Forward(unit, weights[unit], x, batch);
  return x;
}

TEST(GraphSageTest, LossAndGradientsAreThoseOfThePlainFormula) {
  for (const GraphAggregator aggregator :
       {GraphAggregator::kMean, GraphAggregator::kSum, GraphAggregator::kMax}) {
    const GraphSageShape shape{
        .columns = 20, .hidden = 37, .classes = 3, .fanout = {3, 2}, .aggregator = aggregator};
    const auto model = GraphSage::Create(shape).value();
    const StagedBatch batch = SmallBatch(shape.columns);
    const auto weights = RandomWeights(*model);
    const at::Tensor sums = Sums(*model, weights, batch), plain = PlainLoss(shape, weights, batch);
    ASSERT_EQ(sums.size(0), 2);
    EXPECT_NEAR(sums[0].item<float>(), plain.item<float>(), 1e-3);
    std::vector<at::Tensor> all;
    for (const auto& of_unit : weights) all.insert(all.end(), of_unit.begin(), of_unit.end());
    const auto ours = torch::autograd::grad({sums[0]}, all);
    const auto theirs = torch::autograd::grad({plain}, all);
    for (size_t i = 0; i < all.size(); ++i)
      EXPECT_TRUE(at::allclose(ours[i], theirs[i], 1e-3, 1e-4)) << i;
  }
}

TEST(GraphSageTest, UnlabelledSeedsDoNotCount) {
  const auto model =
      GraphSage::Create({.columns = 4, .hidden = 8, .classes = 3, .fanout = {3, 2}}).value();
  const auto weights = RandomWeights(*model);
  StagedBatch batch = SmallBatch(4), one = SmallBatch(4);
  batch.tensors[kLabels] = Whole({2, -1, -1});
  one.tensors[kSeedRows] = Whole({1});
  one.tensors[kLabels] = Whole({2});
  EXPECT_TRUE(at::equal(Sums(*model, weights, batch), Sums(*model, weights, one)));
  batch.tensors[kLabels] = Whole({-1, -1, -1});
  EXPECT_TRUE(at::equal(Sums(*model, weights, batch).detach(), at::zeros({2})));
}

TEST(GraphSageTest, AnIsolatedNodeHasWhatItsOwnRowGives) {
  const at::Tensor x = RandomNormal({2, 5}, 3);
  const at::Tensor none = at::zeros({0}, at::kInt);
  for (const GraphAggregator aggregator :
       {GraphAggregator::kMean, GraphAggregator::kSum, GraphAggregator::kMax})
    EXPECT_TRUE(at::equal(Aggregate(x, Whole({0, 0, 0}), none, aggregator), at::zeros({2, 5})));
}

TEST(GraphSageTest, ARowOfZerosStaysZeroWhenRowsAreScaled) {
  const auto model =
      GraphSage::Create(
          {.columns = 4, .hidden = 8, .classes = 3, .fanout = {3, 2}, .normalize = true})
          .value();
  auto weights = RandomWeights(*model);
  weights[0][kSelfBias] = at::zeros({8}).requires_grad_();
  StagedBatch batch = SmallBatch(4);
  batch.tensors[kFeatures] = at::zeros({7, 4});
  const at::Tensor hidden = model->Forward(0, weights[0], {}, batch);
  EXPECT_TRUE(at::equal(hidden.detach(), at::zeros({5, 8})));
  const auto gradients = torch::autograd::grad({Sums(*model, weights, batch)[0]}, weights[0]);
  for (const at::Tensor& gradient : gradients) EXPECT_TRUE(gradient.isfinite().all().item<bool>());
  batch.tensors[kFeatures] = RandomNormal({7, 4}, 5);
  // ReLU makes rows shorter, not longer.
  EXPECT_LT(model->Forward(0, weights[0], {}, batch).norm(2, 1).max().item<float>(), 1.00001);
}

TEST(GraphSageTest, ResultsAreTheSameForAnyNumberOfThreads) {
  const int64_t columns = 100, rows = 3000;
  std::vector<int64_t> indptr{0};
  std::vector<int32_t> sources;
  for (int64_t t = 0; t < 1000; ++t) {
    for (int64_t i = 0; i < t % 40; ++i)
      sources.push_back(static_cast<int32_t>((t * 131 + i * i * 17) % rows));
    indptr.push_back(static_cast<int64_t>(sources.size()));
  }
  const at::Tensor x = RandomNormal({rows, columns}, 1).requires_grad_();
  const at::Tensor back = RandomNormal({1000, columns}, 2);
  for (const GraphAggregator aggregator :
       {GraphAggregator::kMean, GraphAggregator::kSum, GraphAggregator::kMax}) {
    std::vector<at::Tensor> outs, gradients;
    for (const int threads : {1, 4}) {
      at::set_num_threads(threads);
      outs.push_back(Aggregate(x, Whole(indptr), at::tensor(sources, at::kInt), aggregator));
      gradients.push_back(torch::autograd::grad({outs.back()}, {x}, {back})[0]);
    }
    EXPECT_TRUE(at::equal(outs[0], outs[1]));
    EXPECT_TRUE(at::equal(gradients[0], gradients[1]));
  }
}

TEST(GraphSageTest, DropoutIsAFunctionOfKeyLayerNodeAndColumn) {
  const at::Tensor nodes = Whole({5, 7, 5, 1000000});
  const at::Tensor mask = DropoutMask(1, 0, nodes, 1001, 0.25);
  EXPECT_TRUE(at::equal(mask[0], mask[2]));
  EXPECT_FALSE(at::equal(mask[0], mask[1]));
  EXPECT_TRUE(at::equal(mask, DropoutMask(1, 0, nodes, 1001, 0.25)));
  EXPECT_TRUE(at::equal(mask.narrow(1, 0, 9), DropoutMask(1, 0, nodes, 9, 0.25)));
  EXPECT_FALSE(at::equal(mask, DropoutMask(2, 0, nodes, 1001, 0.25)));
  EXPECT_FALSE(at::equal(mask, DropoutMask(1, 1, nodes, 1001, 0.25)));
  EXPECT_TRUE(((mask == 0).logical_or(mask == 4.0F / 3)).all().item<bool>());
  EXPECT_NEAR(mask.mean().item<float>(), 1, 0.05);
  const at::Tensor many = DropoutMask(3, 0, at::arange(2000), 64, 0.5);
  EXPECT_NEAR(many.mean().item<float>(), 1, 0.01);
}

TEST(GraphSageTest, DropoutIsOffInEvaluation) {
  const auto model =
      GraphSage::Create({.columns = 4, .hidden = 64, .classes = 3, .fanout = {3, 2}}).value();
  const auto weights = RandomWeights(*model);
  StagedBatch batch = SmallBatch(4);
  const at::Tensor evaluated = model->Forward(0, weights[0], {}, batch);
  EXPECT_TRUE(at::equal(evaluated, model->Forward(0, weights[0], {}, batch)));
  batch.tensors[kDropoutKey] = Whole({9});
  const at::Tensor trained = model->Forward(0, weights[0], {}, batch);
  EXPECT_TRUE(at::equal(
      trained, evaluated * DropoutMask(9, 0, batch.tensors[kNodes].narrow(0, 0, 5), 64, 0.5)));
}

}  // namespace
}  // namespace longhaul

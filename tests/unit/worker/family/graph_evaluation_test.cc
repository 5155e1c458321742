// Evaluations of graph models: what is computed layer by layer is what the sampled form gives with
// all neighbors.
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "ATen/core/grad_mode.h"
#include "ATen/ops/from_blob.h"
#include "ATen/ops/tensor.h"
#include "tests/testing/graph_files.h"
#include "tests/testing/graphs.h"
#include "tests/testing/random_tensor.h"
#include "tests/testing/temp_dir.h"
#include "worker/family/graph/graph_batches.h"
#include "worker/family/graph/graph_evaluation_stager.h"
#include "worker/family/graph/graph_stager.h"
#include "worker/graph/layer_targets.h"
#include "worker/graph/neighbor_sampler.h"
#include "worker/model/graph_batch.h"
#include "worker/model/graph_sage.h"

namespace longhaul {
namespace {

// Sums over some hundred nodes in another order. Counts are equal.
constexpr double kRounding = 1e-6;

class GraphEvaluationTest : public testing::Test {
 protected:
  void Open(const std::string& path) {
    folder_ = std::make_shared<const GraphFolder>(GraphFolder::Open(path).value());
    nodes_ = folder_->nodes();
  }
  void OpenPlanted(int64_t nodes) {
    testing_support::WritePlantedGraph({.nodes = nodes}, temp_.path() + "/planted");
    Open(temp_.path() + "/planted");
  }
  void MakeModel(GraphSageShape shape) {
    shape.columns = folder_->columns();
    shape.classes = folder_->manifest().classes;
    shape_ = shape;
    model_ = GraphSage::Create(shape).value();
    weights_.clear();
    for (const UnitLayout& unit : model_->layout().units) {
      weights_.emplace_back();
      for (const TensorLayout& tensor : unit.tensors)
        weights_.back().push_back(
            RandomNormal(tensor.shape, 10 + static_cast<int>(weights_.size())));
    }
  }
  std::vector<double> SumsOf(const StagedBatch& batch) const {
    const at::NoGradGuard no_grad;
    at::Tensor x;
    for (size_t unit = 0; unit < weights_.size(); ++unit)
      x = model_->Forward(static_cast<int>(unit), weights_[unit], x, batch);
    return {x.const_data_ptr<float>(), x.const_data_ptr<float>() + x.numel()};
  }
  // Over all batches and ranks.
  std::vector<double> ByLayers(int64_t count, int ranks, bool copied = false) const {
    std::vector<double> sums(static_cast<size_t>(2 + model_->counts()));
    const auto rows = copied ? HostRows::Copy(*folder_, nullptr).value() : nullptr;
    for (int rank = 0; rank < ranks; ++rank) {
      const auto batches = GraphBatches::Create(
          {.fanout = shape_.fanout, .batch = 10, .rank = rank, .ranks = ranks}, folder_, rows);
      GraphEvaluationStager stager(folder_, rows, std::make_unique<GraphStager>());
      for (int64_t index = 0; index < count; ++index) {
        const ExampleBatch batch = (*batches)->MakeHeldOut(index, count).value();
        const StagedBatch staged = stager.Stage(batch, 0, 1).value();
        EXPECT_EQ(staged.examples, batch.examples);
        if (staged.examples == 0) continue;
        const std::vector<double> of = SumsOf(staged);
        for (size_t i = 0; i < sums.size(); ++i) sums[i] += of[i];
      }
    }
    return sums;
  }
  // Loss and right predictions of the validation nodes at once, from samples of all neighbors.
  std::vector<double> Directly() const {
    const std::vector<int64_t> all(shape_.fanout.size(), -1);
    auto sampler = NeighborSampler::Create(folder_->edges(), {.fanout = all}).value();
    const SampledBatch sample = sampler.Sample(0, folder_->valid()).value();
    StagedBatch batch{.tensors = std::vector<at::Tensor>(kGraphTensors)};
    const auto whole = [](const std::vector<int64_t>& values) {
      return at::tensor(values, at::kLong);
    };
    const at::Tensor features =
        at::from_blob(const_cast<float*>(folder_->features().data()), {nodes_, folder_->columns()});
    batch.tensors[kNodes] = whole(sample.nodes);
    batch.tensors[kFeatures] = features.index_select(0, batch.tensors[kNodes]);
    batch.tensors[kLevelEnds] = whole(sample.level_ends);
    batch.tensors[kIndptr] = whole(sample.indptr);
    batch.tensors[kSourceRows] = at::tensor(sample.source_rows, at::kInt);
    batch.tensors[kSeedRows] = at::tensor(sample.seed_rows, at::kInt).to(at::kLong);
    std::vector<int64_t> labels;
    for (const int64_t node : folder_->valid()) labels.push_back(folder_->labels()[node]);
    batch.tensors[kLabels] = whole(labels);
    batch.examples = static_cast<int64_t>(labels.size());
    return SumsOf(batch);
  }

  TempDir temp_;
  std::shared_ptr<const GraphFolder> folder_;
  int64_t nodes_ = 0;
  GraphSageShape shape_;
  std::unique_ptr<GraphSage> model_;
  std::vector<std::vector<at::Tensor>> weights_;
};

TEST_F(GraphEvaluationTest, LayerByLayerEqualsAllNeighborsAtOnce) {
  OpenPlanted(1000);
  for (const GraphAggregator aggregator :
       {GraphAggregator::kMean, GraphAggregator::kSum, GraphAggregator::kMax}) {
    for (const std::vector<int64_t>& fanout : {std::vector<int64_t>{3}, {2, 2}, {4, 3, 2}}) {
      MakeModel({.hidden = 24,
                 .fanout = fanout,
                 .aggregator = aggregator,
                 .normalize = true,
                 .layer_norm = true});
      const std::vector<double> direct = Directly(), layers = ByLayers(1, 1);
      EXPECT_NEAR(layers[0], direct[0], kRounding * direct[0]);
      EXPECT_EQ(layers[1], direct[1]);
    }
  }
}

TEST_F(GraphEvaluationTest, TheSameForAnyBatchesRanksAndAccess) {
  OpenPlanted(1000);
  MakeModel({.hidden = 24, .fanout = {2, 2}});
  const std::vector<double> one = ByLayers(1, 1);
  // Twice the same.
  EXPECT_EQ(ByLayers(1, 1), one);
  EXPECT_EQ(ByLayers(1, 1, /*copied=*/true), one);
  for (const int64_t count : {1, 3, 500}) {
    for (const int ranks : {1, 2, 5}) {
      const std::vector<double> sums = ByLayers(count, ranks);
      EXPECT_NEAR(sums[0], one[0], kRounding * one[0]);
      EXPECT_EQ(std::vector<double>(sums.begin() + 1, sums.end()),
                std::vector<double>(one.begin() + 1, one.end()));
    }
  }
}

TEST_F(GraphEvaluationTest, MoreNodesThanAreComputedAtOnce) {
  OpenPlanted(12'000);
  MakeModel({.hidden = 8, .fanout = {2, 2}});
  const std::vector<double> direct = Directly(), layers = ByLayers(1, 1);
  EXPECT_NEAR(layers[0], direct[0], kRounding * direct[0]);
  EXPECT_EQ(layers[1], direct[1]);
}

TEST_F(GraphEvaluationTest, WideIdsAndUnlabelledNodes) {
  testing_support::GraphContent ring = testing_support::RingGraph(40, 3);
  ring.wide = true;
  // A validation node.
  ring.labels[1] = -1;
  testing_support::WriteGraph(ring, temp_.path() + "/ring");
  Open(temp_.path() + "/ring");
  MakeModel({.hidden = 5, .fanout = {1, 1}});
  const std::vector<double> direct = Directly(), layers = ByLayers(1, 1);
  EXPECT_NEAR(layers[0], direct[0], kRounding * direct[0]);
  EXPECT_EQ(layers[1], direct[1]);
  // Nodes 1, 4, 7 ... 37 without node 1.
  EXPECT_EQ(layers[2] + layers[3], 12);
  EXPECT_EQ(layers[4] + layers[5], 12);
}

TEST_F(GraphEvaluationTest, UnlabelledNodesPassMessagesAndNeverCount) {
  // Node v reads v - 1, and so v - 2. Training nodes 0, 3 and 6, validation nodes 1 and 4.
  testing_support::GraphContent ring = testing_support::RingGraph(7, 2);
  ring.labels = {0, 1, -1, -1, -1, -1, 0};
  int written = 0;
  // Of a step of training, or of an evaluation: loss, right ones and counts of classes; and how
  // many nodes count.
  const auto sums = [&](const testing_support::GraphContent& graph, bool held_out) {
    const std::string path = temp_.path() + "/" + std::to_string(++written);
    testing_support::WriteGraph(graph, path);
    Open(path);
    MakeModel({.hidden = 4, .fanout = {1, 1}, .dropout = 0});
    const auto batches =
        GraphBatches::Create({.fanout = shape_.fanout, .batch = 3}, folder_, nullptr).value();
    GraphEvaluationStager stager(folder_, nullptr, std::make_unique<GraphStager>());
    const ExampleBatch batch =
        held_out ? batches->MakeHeldOut(0, 1).value() : batches->Make(1).value();
    std::vector<double> result = SumsOf(stager.Stage(batch, 0, 1).value());
    result.push_back(static_cast<double>(batch.pool_weight));
    return result;
  };
  const auto with = [](testing_support::GraphContent graph, int node, float feature) {
    graph.features[2 * node] = feature;
    return graph;
  };
  const auto expect_equal = [](const std::vector<double>& a, const std::vector<double>& b) {
    ASSERT_EQ(a.size(), b.size());
    for (size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], kRounding * (1 + b[i])) << i;
  };
  const std::vector<double> trained = sums(ring, false), held_out = sums(ring, true);
  EXPECT_EQ(trained.back(), 2);
  EXPECT_EQ(held_out.back(), 1);
  testing_support::GraphContent labelled = ring;
  labelled.train = {0, 6};
  labelled.valid = {1};
  expect_equal(trained, sums(labelled, false));
  expect_equal(held_out, sums(labelled, true));
  // Of these nodes only 3 reads node 2, and only 4 reads node 3.
  expect_equal(trained, sums(with(ring, 2, 9), false));
  expect_equal(held_out, sums(with(ring, 3, 9), true));
  // Node 6 reads nodes 5 and 4, node 1 in the second hop node 6.
  for (const int node : {4, 5}) EXPECT_NE(trained[0], sums(with(ring, node, 9), false)[0]) << node;
  labelled = ring;
  labelled.labels[6] = -1;
  EXPECT_NE(sums(labelled, true)[0], sums(with(labelled, 6, 9), true)[0]);
  // With a label they count.
  labelled = ring;
  labelled.labels[3] = 0;
  EXPECT_EQ(sums(labelled, false).back(), 3);
  EXPECT_NE(sums(labelled, false)[0], trained[0]);
}

TEST_F(GraphEvaluationTest, MacroF1IsTheMeanOverClassesThatOccur) {
  OpenPlanted(100);
  MakeModel({.hidden = 4, .fanout = {1}});
  // Five classes. Labels, predictions, and those that are right.
  const std::vector<double> counts = {4, 2, 0, 0, 1, /**/ 2, 4, 1, 0, 0, /**/ 2, 2, 0, 0, 0};
  std::vector<NamedValue> means = {{"loss", 1}, {"accuracy", 0.5}};
  model_->Derive(means, counts);
  ASSERT_EQ(means.size(), 3u);
  EXPECT_EQ(means[2].name, "macro_f1");
  EXPECT_DOUBLE_EQ(means[2].value, (4.0 / 6 + 4.0 / 6 + 0 + 0) / 4);
}

TEST(LayerTargetsTest, AChangedGraphIsNoGraph) {
  testing_support::MemoryGraph graph = testing_support::GraphOf(4, {{0, 1}, {1, 2}, {2, 3}});
  const std::vector<int64_t> seeds = {3};
  const LayerTargets targets = FindLayerTargets(graph.edges(), seeds, 3).value();
  EXPECT_EQ(targets.nodes, (std::vector<int64_t>{1, 2, 3, 2, 3, 3}));
  EXPECT_EQ(targets.ends, (std::vector<int64_t>{3, 5, 6}));
  EXPECT_TRUE(absl::IsInvalidArgument(FindLayerTargets(graph.edges(), {{4}}, 1).status()));
  graph.sources[2] = 4;
  EXPECT_TRUE(absl::IsDataLoss(FindLayerTargets(graph.edges(), seeds, 2).status()));
  graph.sources[2] = 2;
  graph.indptr[3] = 9;
  EXPECT_TRUE(absl::IsDataLoss(FindLayerTargets(graph.edges(), seeds, 2).status()));
}

}  // namespace
}  // namespace longhaul

// GraphSAGE learns links where there is something to learn, and nothing where there is not.
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "ATen/TensorOperators.h"
#include "ATen/core/grad_mode.h"
#include "ATen/ops/zeros_like.h"
#include "common/base/random.h"
#include "tests/testing/graph_files.h"
#include "tests/testing/graphs.h"
#include "tests/testing/random_tensor.h"
#include "tests/testing/temp_dir.h"
#include "torch/csrc/autograd/autograd.h"
#include "worker/family/graph/graph_stager.h"
#include "worker/family/graph/link_batches.h"
#include "worker/model/graph_sage.h"

namespace longhaul {
namespace {

using testing_support::GraphContent;
using testing_support::GraphOf;
using testing_support::MemoryGraph;
using testing_support::Pair;

// The graph's folder: all pairs in both directions, without those that are held out unless `keep`.
// Two of five are held out.
std::shared_ptr<const GraphFolder> FolderOf(const std::string& path, int64_t columns,
                                            const std::vector<float>& features,
                                            const std::vector<Pair>& pairs, bool keep) {
  GraphContent content;
  std::vector<Pair> both;
  for (size_t i = 0; i < pairs.size(); ++i) {
    const auto [source, target] = pairs[i];
    const bool held_out = i % 5 < 2 && source != target;
    if (held_out) content.valid_pairs.insert(content.valid_pairs.end(), {source, target});
    if (held_out && !keep) continue;
    both.push_back({source, target});
    both.push_back({target, source});
  }
  content.manifest.columns = columns;
  content.manifest.nodes = static_cast<int64_t>(features.size()) / columns;
  content.manifest.reverse_edges = true;
  const MemoryGraph graph = GraphOf(content.manifest.nodes, both);
  content.indptr = graph.indptr;
  content.sources = graph.wide_sources;
  content.features = features;
  testing_support::WriteGraph(content, path);
  return std::make_shared<const GraphFolder>(GraphFolder::Open(path).value());
}

class LinkTrainer {
 public:
  LinkTrainer(std::shared_ptr<const GraphFolder> folder, const LinkOptions& links)
      : model_(GraphSage::Create({.columns = folder->columns(),
                                  .hidden = 16,
                                  .fanout = {5, 3},
                                  .dropout = 0,
                                  .links = true})
                   .value()),
        batches_(
            LinkBatches::Create({.fanout = {5, 3}, .seed = 1, .batch = 256}, links, folder, nullptr)
                .value()) {
    for (size_t unit = 0; unit < model_->layout().units.size(); ++unit) {
      weights_.emplace_back();
      const auto& tensors = model_->layout().units[unit].tensors;
      for (size_t tensor = 0; tensor < tensors.size(); ++tensor) {
        const double deviation =
            model_->Initial({static_cast<int>(unit), static_cast<int>(tensor)}).deviation;
        all_.push_back(
            (RandomNormal(tensors[tensor].shape, static_cast<int>(all_.size() + 1)) * deviation)
                .requires_grad_());
        weights_.back().push_back(all_.back());
        means_.push_back(at::zeros_like(all_.back()));
        squares_.push_back(at::zeros_like(all_.back()));
      }
    }
  }

  void Train(int steps) {
    for (int step = 1; step <= steps; ++step) {
      const ExampleBatch batch = batches_->Make(step).value();
      const at::Tensor sums = Sums(batch);
      const auto gradients =
          torch::autograd::grad({sums[0] / static_cast<double>(batch.pool_weight)}, all_);
      const at::NoGradGuard guard;
      for (size_t i = 0; i < all_.size(); ++i) {
        means_[i] = 0.9 * means_[i] + 0.1 * gradients[i];
        squares_[i] = 0.99 * squares_[i] + 0.01 * gradients[i] * gradients[i];
        const at::Tensor mean = means_[i] / (1 - std::pow(0.9, step));
        const at::Tensor square = squares_[i] / (1 - std::pow(0.99, step));
        all_[i].sub_(0.01 * mean / (square.sqrt() + 1e-8));
      }
    }
  }

  double Mean(const std::string& metric) {
    const at::NoGradGuard guard;
    const auto names = model_->metrics();
    const auto at = std::find(names.begin(), names.end(), metric) - names.begin();
    double sum = 0;
    for (int64_t index = 0; index < 4; ++index)
      sum += Sums(batches_->MakeHeldOut(index, 4).value())[at].item<double>();
    return sum / static_cast<double>(batches_->HeldOutWeight(4).value());
  }

 private:
  at::Tensor Sums(const ExampleBatch& batch) {
    const StagedBatch staged = GraphStager().Stage(batch, 0, 1).value();
    at::Tensor x;
    for (int unit = 0; unit < static_cast<int>(weights_.size()); ++unit)
      x = model_->Forward(unit, weights_[unit], x, staged);
    return x;
  }

  std::unique_ptr<GraphSage> model_;
  std::unique_ptr<LinkBatches> batches_;
  std::vector<std::vector<at::Tensor>> weights_;
  std::vector<at::Tensor> all_, means_, squares_;
};

std::vector<float> RandomFeatures(int64_t values) {
  const at::Tensor random = RandomNormal({values}, 77);
  return {random.const_data_ptr<float>(), random.const_data_ptr<float>() + values};
}

// Pairs a - b of nodes with random features, and each node in one pair: who sees the edge knows the
// answer, and nobody else does.
TEST(LinkTrainingTest, NothingIsLearnedFromRandomFeaturesUnlessTargetsAreSeen) {
  constexpr int64_t kPairs = 4000, kColumns = 4;
  std::vector<Pair> pairs;
  for (int64_t i = 0; i < kPairs; ++i) pairs.push_back({2 * i, 2 * i + 1});
  const std::vector<float> features = RandomFeatures(2 * kPairs * kColumns);
  const TempDir dir;
  const auto out = FolderOf(dir.Join("out"), kColumns, features, pairs, /*keep=*/false);
  LinkTrainer honest(out, {.eval_negatives = 500});
  EXPECT_NEAR(honest.Mean("auc"), 0.5, 0.02);
  honest.Train(40);
  EXPECT_NEAR(honest.Mean("auc"), 0.5, 0.02);
  // Edges that are validation pairs are not sampled, either.
  const auto kept = FolderOf(dir.Join("kept"), kColumns, features, pairs, /*keep=*/true);
  LinkTrainer excluding(kept, {.eval_negatives = 500});
  excluding.Train(40);
  EXPECT_NEAR(excluding.Mean("auc"), 0.5, 0.02);
  LinkTrainer leaking(kept, {.eval_negatives = 500, .keep_targets = true});
  leaking.Train(40);
  EXPECT_GT(leaking.Mean("auc"), 0.9);
}

TEST(LinkTrainingTest, LinksWithinGroupsAreLearned) {
  const testing_support::PlantedGraph planted =
      testing_support::MakePlantedGraph({.nodes = 1000, .degree = 14, .same = 0.9, .signal = 1.5});
  const TempDir dir;
  const auto folder = FolderOf(dir.Join("g"), 16, planted.features, planted.pairs, false);
  LinkTrainer trainer(folder, {.negatives = 2, .eval_negatives = 500});
  const double before = trainer.Mean("mrr");
  trainer.Train(80);
  // Nine of ten edges are within a group of a fifth of the nodes.
  EXPECT_GT(trainer.Mean("auc"), 0.75);
  EXPECT_GT(trainer.Mean("mrr"), before);
  EXPECT_LT(trainer.Mean("loss"), 0.69);
}

}  // namespace
}  // namespace longhaul

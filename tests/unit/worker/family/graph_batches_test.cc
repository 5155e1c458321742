#include "worker/family/graph/graph_batches.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "tests/testing/graph_files.h"
#include "tests/testing/graphs.h"
#include "tests/testing/temp_dir.h"
#include "worker/family/graph/graph_family.h"
#include "worker/family/graph/graph_stager.h"
#include "worker/model/graph_batch.h"

namespace longhaul {
namespace {

using testing_support::RingGraph;
using testing_support::WriteGraph;

class GraphBatchesTest : public testing::Test {
 protected:
  GraphBatchesTest() : planted_(folder_.path() + "/planted"), ring_(folder_.path() + "/ring") {
    testing_support::WritePlantedGraph({.nodes = 400}, planted_);
    WriteGraph(RingGraph(7, 1), ring_);
  }

  static std::unique_ptr<GraphBatches> Make(const std::string& path, GraphBatches::Options options,
                                            bool host = false) {
    auto folder = std::make_shared<const GraphFolder>(GraphFolder::Open(path).value());
    std::shared_ptr<HostRows> rows;
    if (host) rows = HostRows::Copy(*folder, nullptr).value();
    return GraphBatches::Create(options, folder, rows).value();
  }
  template <typename T>
  static std::vector<T> Values(const ExampleBatch& batch, const char* name, int part = 0) {
    const absl::Span<const T> values = batch.Values<T>(PartName(name, part));
    return {values.begin(), values.end()};
  }

  TempDir folder_;
  const std::string planted_, ring_;
};

TEST_F(GraphBatchesTest, TheRingIsReadInTheOrderOfTheFanOut) {
  // Training nodes 0, 3 and 6.
  const auto batches = Make(ring_, {.fanout = {1, 1}, .batch = 1});
  for (int64_t step = 1; step <= 3; ++step) {
    const ExampleBatch batch = batches->Make(step).value();
    const std::vector<int64_t> nodes = Values<int64_t>(batch, "nodes");
    ASSERT_EQ(nodes.size(), 3u);
    EXPECT_EQ(nodes[1], (nodes[0] + 6) % 7);
    EXPECT_EQ(nodes[2], (nodes[0] + 5) % 7);
    EXPECT_EQ(Values<float>(batch, "features"), std::vector<float>(nodes.begin(), nodes.end()));
    EXPECT_EQ(Values<int64_t>(batch, "labels"), std::vector<int64_t>{nodes[0] % 2});
    EXPECT_EQ(batch.pool_weight, 1);
  }
}

// What each seed reads, whatever the batch is cut into.
std::map<int64_t, std::set<int64_t>> NeighborsOfSeeds(const GraphBatches& batches, int64_t step,
                                                      int parts, int64_t& weight) {
  const ExampleBatch batch = batches.Make(step).value();
  std::map<int64_t, std::set<int64_t>> read;
  for (int part = 0; part < parts; ++part) {
    const auto values = [&](const char* name) {
      return batch.Values<int64_t>(PartName(name, part));
    };
    const auto rows = batch.Values<int32_t>(PartName("source_rows", part));
    for (const int64_t row : values("seed_rows")) {
      std::set<int64_t>& of_seed = read[values("nodes")[row]];
      for (int64_t i = values("indptr")[row]; i < values("indptr")[row + 1]; ++i)
        of_seed.insert(values("nodes")[rows[i]]);
    }
  }
  weight = batch.pool_weight;
  return read;
}

TEST_F(GraphBatchesTest, WhatSeedsReadDoesNotDependOnRanksAndParts) {
  const GraphBatches::Options plain{.fanout = {3, 2}, .seed = 5, .batch = 50};
  for (int64_t step = 1; step <= 6; ++step) {
    int64_t weight = 0;
    const auto expected = NeighborsOfSeeds(*Make(planted_, plain), step, 1, weight);
    EXPECT_EQ(weight, static_cast<int64_t>(expected.size()));
    for (const int parts : {1, 3}) {
      for (const int ranks : {2, 4}) {
        std::map<int64_t, std::set<int64_t>> all;
        for (int rank = 0; rank < ranks; ++rank) {
          GraphBatches::Options options = plain;
          options.rank = rank;
          options.ranks = ranks;
          options.accumulation = parts;
          int64_t of_rank = 0;
          const auto read = NeighborsOfSeeds(*Make(planted_, options), step, parts, of_rank);
          EXPECT_EQ(of_rank, weight);
          all.insert(read.begin(), read.end());
        }
        EXPECT_EQ(all, expected);
      }
    }
  }
}

TEST_F(GraphBatchesTest, BatchesAreEqualForAnyThreadsAndAccess) {
  const GraphBatches::Options plain{.fanout = {3, -1}, .seed = 5, .batch = 64};
  GraphBatches::Options threaded = plain;
  threaded.threads = 4;
  const auto one = Make(planted_, plain), other = Make(planted_, threaded, /*host=*/true);
  for (const int64_t step : {1, 2, 9, 2}) {
    const ExampleBatch a = one->Make(step).value(), b = other->Make(step).value();
    ASSERT_EQ(a.tensors.size(), b.tensors.size());
    for (size_t i = 0; i < a.tensors.size(); ++i)
      EXPECT_EQ(a.tensors[i].values, b.tensors[i].values) << a.tensors[i].name;
  }
}

TEST_F(GraphBatchesTest, EachNodeOfASplitIsEvaluatedOnce) {
  const GraphFolder folder = GraphFolder::Open(planted_).value();
  for (const bool test : {false, true}) {
    const absl::Span<const int64_t> split = test ? folder.test() : folder.valid();
    const std::multiset<int64_t> nodes(split.begin(), split.end());
    for (const int64_t count : {1, 3, 8, 1000}) {
      for (const int ranks : {1, 3}) {
        std::multiset<int64_t> seen;
        int64_t weight = 0;
        for (int rank = 0; rank < ranks; ++rank) {
          const auto batches =
              Make(planted_, {.fanout = {1, 1}, .batch = 10, .rank = rank, .ranks = ranks});
          EXPECT_EQ(test ? batches->TestWeight() : batches->HeldOutWeight(count).value(),
                    static_cast<int64_t>(nodes.size()));
          for (int64_t index = 0; index < count; ++index) {
            const ExampleBatch batch = test ? batches->MakeTest(index, count).value()
                                            : batches->MakeHeldOut(index, count).value();
            if (rank == 0) weight += batch.pool_weight;
            const auto targets = Values<int64_t>(batch, "layer_targets"),
                       ends = Values<int64_t>(batch, "layer_target_ends");
            if (targets.empty()) continue;
            seen.insert(targets.begin() + ends[0], targets.end());
          }
        }
        EXPECT_EQ(seen, nodes);
        EXPECT_EQ(weight, static_cast<int64_t>(nodes.size()));
      }
    }
  }
}

TEST_F(GraphBatchesTest, TrainingEdgesAreBetweenTrainingNodes) {
  const GraphFolder folder = GraphFolder::Open(planted_).value();
  const std::set<int64_t> train(folder.train().begin(), folder.train().end());
  const auto batches = Make(planted_, {.fanout = {-1, -1}, .batch = 100, .training_edges = true});
  for (const int64_t node : Values<int64_t>(batches->Make(1).value(), "nodes"))
    EXPECT_TRUE(train.contains(node));
}

TEST_F(GraphBatchesTest, ARankWithoutSeedsHasAnEmptyBatch) {
  // Three training nodes.
  const auto batches = Make(ring_, {.fanout = {1}, .batch = 100, .rank = 3, .ranks = 4});
  const ExampleBatch batch = batches->Make(1).value();
  EXPECT_EQ(batch.examples, 0);
  EXPECT_EQ(batch.pool_weight, 3);
  const StagedBatch staged = GraphStager().Stage(batch, 0, 1).value();
  EXPECT_EQ(staged.examples, 0);
}

TEST_F(GraphBatchesTest, TheStagerShowsThePartsTensors) {
  const auto batches = Make(planted_, {.fanout = {2, 2}, .batch = 40, .accumulation = 2});
  const ExampleBatch batch = batches->Make(1).value();
  int64_t examples = 0;
  for (int part = 0; part < 2; ++part) {
    const StagedBatch staged = GraphStager().Stage(batch, part, 2).value();
    ASSERT_EQ(staged.tensors.size(), static_cast<size_t>(kGraphTensors));
    examples += staged.examples;
    EXPECT_EQ(staged.tensors[kFeatures].size(0), staged.tensors[kNodes].size(0));
    EXPECT_EQ(staged.tensors[kFeatures].size(1), 16);
    EXPECT_EQ(staged.tensors[kLevelEnds][2].item<int64_t>(), staged.tensors[kNodes].size(0));
    EXPECT_TRUE(staged.tensors[kDropoutKey].defined());
  }
  EXPECT_EQ(examples, batch.examples);
}

}  // namespace
}  // namespace longhaul

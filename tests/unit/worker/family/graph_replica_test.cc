// A replica that trains on links with the engine: the loss and the metrics of evaluations are those
// of the pool, however it is spread over ranks and micro-batches.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/testing/graph_files.h"
#include "tests/testing/graphs.h"
#include "tests/testing/temp_dir.h"
#include "tests/unit/worker/engine/run_ranks.h"
#include "worker/family/graph/graph_family.h"
#include "worker/trainer/torch_replica.h"

namespace longhaul {
namespace {

constexpr int kSteps = 5;

class GraphReplicaTest : public testing::Test {
 protected:
  GraphReplicaTest() {
    const testing_support::PlantedGraph planted = testing_support::MakePlantedGraph({.nodes = 300});
    testing_support::GraphContent content;
    std::vector<testing_support::Pair> both;
    for (size_t i = 0; i < planted.pairs.size(); ++i) {
      const auto [source, target] = planted.pairs[i];
      if (i % 10 == 0 && source != target) {
        content.valid_pairs.insert(content.valid_pairs.end(), {source, target});
      } else {
        both.push_back({source, target});
        both.push_back({target, source});
      }
    }
    const testing_support::MemoryGraph graph = testing_support::GraphOf(300, both);
    content.manifest.nodes = 300;
    content.manifest.columns = 16;
    content.indptr = graph.indptr;
    content.sources = graph.wide_sources;
    content.features = planted.features;
    testing_support::WriteGraph(content, dir_.Join("graph"));
  }

  struct Run {
    int ranks = 1, accumulation = 1;
    const char* preset = "ddp";
    int beside = 0;
  };
  struct Result {
    std::vector<double> losses;
    EvalStats evaluated;
  };

  static absl::StatusOr<std::unique_ptr<TorchReplica>> Create(const Run& run,
                                                              const std::string& path,
                                                              Communicator* communicator) {
    TorchReplica::Options options{
        .plan = {.batch = 40,
                 .accumulation = run.accumulation,
                 .seed = 5,
                 .learning_rate = {.peak = 5e-3, .steps = 100},
                 .optimizer = AdamWOptions{},
                 .partition = *PartitionPreset(run.preset),
                 .eval_batches = 2,
                 .evaluation_beside = {.evaluations = run.beside, .host_bytes = 1 << 30}}};
    if (run.ranks > 1) options.site.link.communicator = communicator;
    options.family = GraphFamily(
        {.shape = {.columns = 16, .hidden = 8, .fanout = {4, 3}, .dropout = 0.1, .links = true},
         .field = "data.graph",
         .path = path,
         .links = LinkOptions{.negatives = 2, .eval_negatives = 50}});
    return TorchReplica::Create(options);
  }

  Result Train(const Run& run) {
    Result result;
    RunRanks(run.ranks, [&](int rank, Communicator& communicator) {
      const auto replica = Create(run, dir_.Join("graph"), &communicator);
      ASSERT_TRUE(replica.ok()) << replica.status();
      for (int step = 1; step <= kSteps; ++step) {
        const auto stats = (*replica)->Step(step);
        ASSERT_TRUE(stats.ok()) << stats.status();
        if (rank == 0) result.losses.push_back(stats->loss);
      }
      const auto evaluated = (*replica)->Evaluate();
      ASSERT_TRUE(evaluated.ok()) << evaluated.status();
      if (run.beside > 0) {
        ASSERT_TRUE((*replica)->BeginEvaluation().ok());
        const auto beside = (*replica)->TakeEvaluation(/*wait=*/true);
        ASSERT_TRUE(beside.ok()) << beside.status();
        EXPECT_EQ((*beside)->loss, evaluated->loss);
      }
      if (rank == 0) result.evaluated = *evaluated;
    });
    return result;
  }

  TempDir dir_;
};

TEST_F(GraphReplicaTest, LinksTrainToTheSameOnAnyRanks) {
  const Result one = Train({});
  ASSERT_EQ(one.losses.size(), static_cast<size_t>(kSteps));
  std::vector<std::string> names;
  for (const NamedValue& metric : one.evaluated.metrics) names.push_back(metric.name);
  EXPECT_EQ(names, (std::vector<std::string>{"loss", "auc", "mrr", "hits_1", "hits_3", "hits_10"}));
  EXPECT_EQ(one.evaluated.loss, one.evaluated.metrics[0].value);
  for (const Run& run : {Run{.beside = 1}, Run{.accumulation = 3}, Run{.ranks = 2},
                         Run{.ranks = 3, .accumulation = 2, .preset = "zero3"}}) {
    const Result other = Train(run);
    ASSERT_EQ(other.losses.size(), one.losses.size());
    for (int i = 0; i < kSteps; ++i) EXPECT_NEAR(other.losses[i], one.losses[i], 1e-3);
    ASSERT_EQ(other.evaluated.metrics.size(), one.evaluated.metrics.size());
    EXPECT_EQ(other.evaluated.tokens, one.evaluated.tokens);
    for (size_t i = 0; i < one.evaluated.metrics.size(); ++i) {
      EXPECT_NEAR(other.evaluated.metrics[i].value, one.evaluated.metrics[i].value, 0.02)
          << one.evaluated.metrics[i].name;
    }
  }
}

TEST_F(GraphReplicaTest, AGraphWithoutPairsIsRefusedWithTheField) {
  testing_support::WritePlantedGraph({.nodes = 50}, dir_.Join("nodes"));
  const absl::Status status = Create({}, dir_.Join("nodes"), nullptr).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  EXPECT_NE(status.message().find("it has no validation pairs"), std::string::npos) << status;
}

}  // namespace
}  // namespace longhaul

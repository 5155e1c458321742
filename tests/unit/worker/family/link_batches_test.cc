#include "worker/family/graph/link_batches.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/testing/graph_files.h"
#include "tests/testing/graphs.h"
#include "tests/testing/temp_dir.h"
#include "worker/family/graph/graph_stager.h"
#include "worker/model/graph_batch.h"

namespace longhaul {
namespace {

using testing_support::GraphContent;
using testing_support::WriteGraph;

// What a batch says of a pair: its ends, and its negatives that count.
struct Example {
  int64_t source = 0, target = 0;
  std::vector<int64_t> negatives;
  friend bool operator==(const Example&, const Example&) = default;
};

class LinkBatchesTest : public testing::Test {
 protected:
  LinkBatchesTest() {
    testing_support::WritePlantedGraph({.nodes = 400}, folder_.path() + "/planted");
    planted_ = GraphFolder::Open(folder_.path() + "/planted").value();
    // The same, with a tenth of its pairs held out.
    GraphContent content;
    content.manifest.nodes = 400;
    content.manifest.columns = 1;
    content.manifest.reverse_edges = true;
    content.features.resize(400);
    const GraphEdges edges = planted_->edges();
    content.indptr.push_back(0);
    for (int64_t v = 0; v < 400; ++v) {
      for (int64_t e = edges.indptr[v]; e < edges.indptr[v + 1]; ++e) {
        const int64_t u = edges.sources[e];
        if ((u + v) % 10 != 0) {
          content.sources.push_back(u);
        } else if (u < v) {
          content.valid_pairs.insert(content.valid_pairs.end(), {u, v});
        }
      }
      content.indptr.push_back(static_cast<int64_t>(content.sources.size()));
    }
    path_ = folder_.path() + "/links";
    WriteGraph(content, path_);
    graph_ = std::make_shared<const GraphFolder>(GraphFolder::Open(path_).value());
  }

  std::unique_ptr<LinkBatches> Make(const GraphBatches::Options& options, const LinkOptions& links,
                                    bool host = false) const {
    std::shared_ptr<HostRows> rows;
    if (host) rows = HostRows::Copy(*graph_, nullptr).value();
    return LinkBatches::Create(options, links, graph_, rows).value();
  }

  static std::vector<Example> ExamplesOf(const ExampleBatch& batch, int parts) {
    std::vector<Example> result;
    for (int part = 0; part < parts; ++part) {
      const auto values = [&](const char* name) {
        return batch.Values<int64_t>(PartName(name, part));
      };
      const auto nodes = values("nodes"), rows = values("seed_rows"), ends = values("group_ends");
      if (rows.empty()) continue;
      const int64_t pairs = values("pairs")[0];
      const int64_t groups = ends.empty() ? pairs : static_cast<int64_t>(ends.size());
      const int64_t each = (static_cast<int64_t>(rows.size()) - 2 * pairs) / groups;
      std::set<int64_t> uncounted(values("uncounted").begin(), values("uncounted").end());
      for (int64_t pair = 0; pair < pairs; ++pair) {
        Example example{nodes[rows[pair]], nodes[rows[pairs + pair]], {}};
        const int64_t group =
            ends.empty() ? pair : std::upper_bound(ends.begin(), ends.end(), pair) - ends.begin();
        for (int64_t i = 0; i < each; ++i) {
          if (!uncounted.contains(pair * each + i))
            example.negatives.push_back(nodes[rows[2 * pairs + group * each + i]]);
        }
        result.push_back(std::move(example));
      }
    }
    return result;
  }
  // What each node of the first level reads.
  static std::map<int64_t, std::multiset<int64_t>> ReadOf(const ExampleBatch& batch, int parts) {
    std::map<int64_t, std::multiset<int64_t>> read;
    for (int part = 0; part < parts; ++part) {
      const auto values = [&](const char* name) {
        return batch.Values<int64_t>(PartName(name, part));
      };
      if (values("level_ends").empty()) continue;
      const auto rows = batch.Values<int32_t>(PartName("source_rows", part));
      for (int64_t row = 0; row < values("level_ends")[0]; ++row) {
        std::multiset<int64_t> of_seed;
        for (int64_t i = values("indptr")[row]; i < values("indptr")[row + 1]; ++i)
          of_seed.insert(values("nodes")[rows[i]]);
        const auto [at, fresh] = read.emplace(values("nodes")[row], of_seed);
        EXPECT_EQ(at->second, of_seed);
      }
    }
    return read;
  }
  // All edges that a batch reads, at any hop.
  static std::set<std::pair<int64_t, int64_t>> EdgesOf(const ExampleBatch& batch) {
    const auto values = [&](const char* name) { return batch.Values<int64_t>(PartName(name, 0)); };
    const auto rows = batch.Values<int32_t>(PartName("source_rows", 0));
    std::set<std::pair<int64_t, int64_t>> edges;
    for (size_t row = 0; row + 1 < values("indptr").size(); ++row) {
      for (int64_t i = values("indptr")[row]; i < values("indptr")[row + 1]; ++i)
        edges.emplace(values("nodes")[rows[i]], values("nodes")[row]);
    }
    return edges;
  }

  TempDir folder_;
  absl::StatusOr<GraphFolder> planted_ = absl::UnknownError("");
  std::string path_;
  std::shared_ptr<const GraphFolder> graph_;
};

TEST_F(LinkBatchesTest, AnEpochHasEachEdgeOnceWithNegativesThatAreNotLinked) {
  const auto batches = Make({.fanout = {3, 2}, .seed = 3, .batch = 100}, {.negatives = 4});
  const int64_t edges = graph_->manifest().edges;
  EXPECT_EQ(LinkBatches::TrainingPairs(*graph_), edges);
  const std::vector<absl::Span<const NodePair>> none;
  const LinkedPairs linked(graph_->edges(), none);
  std::set<std::pair<int64_t, int64_t>> seen;
  for (int64_t step = 1; step <= (edges + 99) / 100; ++step) {
    const ExampleBatch batch = batches->Make(step).value();
    const std::vector<Example> examples = ExamplesOf(batch, 1);
    EXPECT_EQ(batch.pool_weight, static_cast<int64_t>(examples.size()));
    for (const Example& example : examples) {
      EXPECT_TRUE(HasEdge(graph_->edges(), example.source, example.target));
      EXPECT_TRUE(seen.emplace(example.source, example.target).second);
      EXPECT_EQ(example.negatives.size(), 4U);
      for (const int64_t node : example.negatives)
        EXPECT_FALSE(linked.Linked(example.source, node));
    }
  }
  EXPECT_EQ(static_cast<int64_t>(seen.size()), edges);
}

TEST_F(LinkBatchesTest, PairsAndWhatTheyReadDoNotDependOnRanksAndParts) {
  const GraphBatches::Options plain{.fanout = {3, 2}, .seed = 5, .batch = 50};
  const LinkOptions links{.negatives = 3};
  for (int64_t step = 1; step <= 3; ++step) {
    const ExampleBatch whole = Make(plain, links)->Make(step).value();
    const auto expected = ExamplesOf(whole, 1);
    const auto expected_reads = ReadOf(whole, 1);
    for (const int parts : {1, 3}) {
      for (const int ranks : {2, 4}) {
        std::vector<Example> all;
        for (int rank = 0; rank < ranks; ++rank) {
          GraphBatches::Options options = plain;
          options.rank = rank;
          options.ranks = ranks;
          options.accumulation = parts;
          const ExampleBatch batch = Make(options, links)->Make(step).value();
          EXPECT_EQ(batch.pool_weight, whole.pool_weight);
          for (Example& example : ExamplesOf(batch, parts)) all.push_back(std::move(example));
          for (const auto& [node, read] : ReadOf(batch, parts))
            EXPECT_EQ(read, expected_reads.at(node));
        }
        EXPECT_EQ(all, expected);
      }
    }
  }
}

TEST_F(LinkBatchesTest, BatchesAreEqualForAnyThreadsAndAccess) {
  GraphBatches::Options plain{.fanout = {3, -1}, .seed = 5, .batch = 64}, threaded = plain;
  threaded.threads = 4;
  const auto one = Make(plain, {}), other = Make(threaded, {}, /*host=*/true);
  for (const int64_t step : {1, 2, 9, 2}) {
    const ExampleBatch a = one->Make(step).value(), b = other->Make(step).value();
    ASSERT_EQ(a.tensors.size(), b.tensors.size());
    for (size_t i = 0; i < a.tensors.size(); ++i)
      EXPECT_EQ(a.tensors[i].values, b.tensors[i].values) << a.tensors[i].name;
  }
}

TEST_F(LinkBatchesTest, PairsOfABatchAreNoEdgesOfItsSample) {
  for (const bool keep : {false, true}) {
    const GraphBatches::Options options{.fanout = {-1, -1}, .seed = 5, .batch = 80};
    const auto batches = Make(options, {.keep_targets = keep});
    const ExampleBatch batch = batches->Make(2).value();
    const auto read = EdgesOf(batch);
    // The other rank's pairs, too.
    GraphBatches::Options half = options;
    half.ranks = 2;
    const auto read_by_half = EdgesOf(Make(half, {.keep_targets = keep})->Make(2).value());
    for (const Example& example : ExamplesOf(batch, 1)) {
      const std::pair<int64_t, int64_t> edge{example.source, example.target};
      const std::pair<int64_t, int64_t> reverse{example.target, example.source};
      EXPECT_EQ(read.contains(edge), keep);
      EXPECT_EQ(read.contains(reverse), keep);
      EXPECT_EQ(read_by_half.contains(edge) || read_by_half.contains(reverse), keep);
    }
  }
}

TEST_F(LinkBatchesTest, DuplicatesOfAPairAreNoEdgesEither) {
  // 0 -> 1 three times, 1 -> 0 twice, 2 -> 0 and 2 -> 1.
  GraphContent content;
  content.manifest.nodes = 3;
  content.manifest.columns = 1;
  content.manifest.duplicates_kept = true;
  content.features = {0, 1, 2};
  content.indptr = {0, 3, 7, 7};
  content.sources = {1, 1, 2, 0, 0, 0, 2};
  content.train_pairs = {0, 1};
  content.valid_pairs = {0, 2};
  WriteGraph(content, folder_.path() + "/duplicates");
  const auto folder = std::make_shared<const GraphFolder>(
      GraphFolder::Open(folder_.path() + "/duplicates").value());
  const auto batches =
      LinkBatches::Create({.fanout = {-1}, .batch = 1}, {}, folder, nullptr).value();
  const std::set<std::pair<int64_t, int64_t>> left = {{2, 0}, {2, 1}};
  EXPECT_EQ(EdgesOf(batches->Make(1).value()), left);
  // All nodes are linked: nothing counts, and nothing fails.
  EXPECT_TRUE(ExamplesOf(batches->Make(1).value(), 1)[0].negatives.empty());
}

TEST_F(LinkBatchesTest, EachValidationPairIsEvaluatedOnceWithTheSameNegatives) {
  const absl::Span<const NodePair> valid = graph_->valid_pairs();
  ASSERT_GT(valid.size(), 2U * kPairsOfGroup);
  const std::vector<absl::Span<const NodePair>> pairs = {valid};
  const LinkedPairs known(graph_->edges(), pairs);
  std::vector<Example> expected;
  for (const int64_t count : {1, 3, 8, 1000}) {
    for (const int ranks : {1, 3}) {
      std::vector<std::pair<int64_t, Example>> seen;
      int64_t weight = 0, place = 0;
      for (int64_t index = 0; index < count; ++index) {
        for (int rank = 0; rank < ranks; ++rank) {
          const auto batches =
              Make({.fanout = {1, 1}, .seed = 9, .batch = 10, .rank = rank, .ranks = ranks},
                   {.eval_negatives = 40});
          EXPECT_EQ(batches->HeldOutWeight(count).value(), static_cast<int64_t>(valid.size()));
          if (count == 1000 && index > 50) break;
          const ExampleBatch batch = batches->MakeHeldOut(index, count).value();
          if (rank == 0) weight += batch.pool_weight;
          for (Example& example : ExamplesOf(batch, 1))
            seen.emplace_back(place++, std::move(example));
        }
      }
      if (count < 1000) {
        EXPECT_EQ(weight, static_cast<int64_t>(valid.size()));
      }
      if (expected.empty()) {
        for (const auto& [at, example] : seen) expected.push_back(example);
        EXPECT_EQ(expected.size(), valid.size());
      }
      for (const auto& [at, example] : seen) {
        EXPECT_EQ((NodePair{example.source, example.target}), valid[at]);
        EXPECT_EQ(example, expected[at]);
        EXPECT_GT(example.negatives.size(), 20U);
        for (const int64_t node : example.negatives)
          EXPECT_FALSE(known.Linked(example.source, node));
      }
    }
  }
}

TEST_F(LinkBatchesTest, EvaluationsReadAllNeighborsButTheValidationPairs) {
  const auto batches = Make({.fanout = {1, 1}, .batch = 10}, {.eval_negatives = 10});
  for (const auto& [node, read] : ReadOf(batches->MakeHeldOut(1, 8).value(), 1)) {
    const auto indptr = graph_->edges().indptr;
    EXPECT_EQ(static_cast<int64_t>(read.size()), indptr[node + 1] - indptr[node]);
  }
  // Validation pairs that are edges.
  GraphContent content = testing_support::RingGraph(100, 1);
  content.valid_pairs = {3, 4, 9, 8};
  WriteGraph(content, folder_.path() + "/kept");
  const auto folder =
      std::make_shared<const GraphFolder>(GraphFolder::Open(folder_.path() + "/kept").value());
  for (const bool keep : {false, true}) {
    const auto kept =
        LinkBatches::Create({.fanout = {-1}, .batch = 10},
                            {.eval_negatives = 5, .keep_targets = keep}, folder, nullptr)
            .value();
    const auto read = EdgesOf(kept->MakeHeldOut(0, 2).value());
    EXPECT_EQ(read.contains({3, 4}), keep);
    const auto later = EdgesOf(kept->MakeHeldOut(1, 2).value());
    EXPECT_EQ(later.contains({8, 9}), keep);
  }
}

TEST_F(LinkBatchesTest, TheStagerCountsPairs) {
  const auto batches = Make({.fanout = {2, 2}, .batch = 41, .accumulation = 2}, {.negatives = 2});
  const ExampleBatch batch = batches->Make(1).value();
  int64_t examples = 0;
  for (int part = 0; part < 2; ++part) {
    const StagedBatch staged = GraphStager().Stage(batch, part, 2).value();
    examples += staged.examples;
    EXPECT_EQ(staged.tensors[kSeedRows].size(0), 4 * staged.examples);
    EXPECT_FALSE(staged.tensors[kGroupEnds].defined());
    EXPECT_TRUE(staged.tensors[kUncounted].defined());
    EXPECT_TRUE(staged.tensors[kDropoutKey].defined());
  }
  EXPECT_EQ(examples, batch.examples);
  const StagedBatch held_out =
      GraphStager().Stage(batches->MakeHeldOut(0, 2).value(), 0, 1).value();
  EXPECT_TRUE(held_out.tensors[kGroupEnds].defined());
  EXPECT_FALSE(held_out.tensors[kDropoutKey].defined());
  // Ranks without pairs.
  const auto few = Make({.fanout = {2, 2}, .batch = 1, .rank = 1, .ranks = 2}, {});
  EXPECT_EQ(GraphStager().Stage(few->Make(1).value(), 0, 1).value().examples, 0);
}

}  // namespace
}  // namespace longhaul

#include "worker/graph/neighbor_sampler.h"

#include <sys/mman.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "common/base/random.h"
#include "common/io/digest.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/graph_files.h"
#include "tests/testing/graphs.h"
#include "tests/testing/temp_dir.h"
#include "worker/graph/seed_plan.h"

namespace longhaul {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;
using testing_support::GraphOf;
using testing_support::MemoryGraph;
using testing_support::Pair;
using testing_support::RmatPairs;

using Options = NeighborSampler::Options;

NeighborSampler SamplerOf(const GraphEdges& edges, const Options& options) {
  auto sampler = NeighborSampler::Create(edges, options);
  EXPECT_TRUE(sampler.ok()) << sampler.status();
  return *std::move(sampler);
}

SampledBatch Sampled(NeighborSampler& sampler, int64_t step, const std::vector<int64_t>& seeds,
                     const std::vector<NodePair>& excluded = {}, ThreadTeam* team = nullptr) {
  auto batch = sampler.Sample(step, seeds, excluded, team);
  EXPECT_TRUE(batch.ok()) << batch.status();
  return batch.ok() ? *std::move(batch) : SampledBatch();
}

template <typename T>
void AddTo(Digester& digester, const std::vector<T>& values) {
  digester.Update(
      absl::string_view(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)));
}

void AddTo(Digester& digester, const SampledBatch& batch) {
  AddTo(digester, batch.nodes);
  AddTo(digester, batch.level_ends);
  AddTo(digester, batch.indptr);
  AddTo(digester, batch.source_rows);
  AddTo(digester, batch.seed_rows);
}

// What holds for every batch.
void ExpectSound(const SampledBatch& batch, const GraphEdges& edges,
                 const std::vector<int64_t>& seeds, const std::vector<int64_t>& fanout) {
  ASSERT_EQ(batch.level_ends.size(), fanout.size() + 1);
  ASSERT_EQ(batch.seed_rows.size(), seeds.size());
  for (size_t i = 0; i < seeds.size(); ++i) EXPECT_EQ(batch.nodes[batch.seed_rows[i]], seeds[i]);
  int64_t first = 0;
  for (size_t level = 0; level < batch.level_ends.size(); ++level) {
    const int64_t end = batch.level_ends[level];
    const std::set<int64_t> distinct(batch.nodes.begin() + first, batch.nodes.begin() + end);
    EXPECT_EQ(static_cast<int64_t>(distinct.size()), end - first);
    EXPECT_TRUE(level == 0 ||
                std::is_sorted(batch.nodes.begin() + first, batch.nodes.begin() + end));
    if (level + 1 == batch.level_ends.size()) break;
    std::set<int64_t> read;
    for (int64_t row = first; row < end; ++row) {
      const int64_t node = batch.nodes[row];
      const int64_t degree = edges.indptr[node + 1] - edges.indptr[node];
      const int64_t taken = batch.indptr[row + 1] - batch.indptr[row];
      EXPECT_EQ(taken, fanout[level] < 0 ? degree : std::min(degree, fanout[level]));
      std::set<int64_t> sources;
      for (int64_t e = batch.indptr[row]; e < batch.indptr[row + 1]; ++e) {
        const int32_t source = batch.source_rows[e];
        EXPECT_GE(source, end);
        EXPECT_LT(source, batch.level_ends[level + 1]);
        sources.insert(batch.nodes[source]);
        EXPECT_TRUE(std::binary_search(edges.sources + edges.indptr[node],
                                       edges.sources + edges.indptr[node + 1],
                                       batch.nodes[source]));
      }
      EXPECT_EQ(static_cast<int64_t>(sources.size()), taken) << "without replacement";
      read.insert(sources.begin(), sources.end());
    }
    EXPECT_EQ(static_cast<int64_t>(read.size()), batch.level_ends[level + 1] - end);
    first = end;
  }
  EXPECT_EQ(batch.level_ends.back(), static_cast<int64_t>(batch.nodes.size()));
}

// For each seed: what it reads, as a tree of nodes.
std::string TreeOf(const SampledBatch& batch, int64_t row, int level) {
  std::string text = std::to_string(batch.nodes[row]);
  if (level + 1 == static_cast<int>(batch.level_ends.size())) return text;
  text += "(";
  for (int64_t e = batch.indptr[row]; e < batch.indptr[row + 1]; ++e)
    text += TreeOf(batch, batch.source_rows[e], level + 1) + " ";
  return text + ")";
}

TEST(NeighborSamplerTest, ReadsExactlyTheFanOutWhichBeginsNextToTheSeeds) {
  // A tree with 20 children and 20 grandchildren of each.
  std::vector<Pair> pairs;
  int64_t next = 21;
  for (int64_t child = 1; child <= 20; ++child) {
    pairs.push_back({child, 0});
    for (int i = 0; i < 20; ++i) pairs.push_back({next++, child});
  }
  const MemoryGraph graph = GraphOf(next, pairs);
  NeighborSampler sampler = SamplerOf(graph.edges(), {.fanout = {3, 7}});
  const SampledBatch batch = Sampled(sampler, 1, {0});
  EXPECT_THAT(batch.level_ends, ElementsAre(1, 4, 25));
  ExpectSound(batch, graph.edges(), {0}, {3, 7});
}

TEST(NeighborSamplerTest, EveryBatchIsSound) {
  const MemoryGraph graph = GraphOf(1 << 12, RmatPairs(12, 60000, 3));
  Random random(4);
  const std::vector<int64_t> fanouts[] = {{25, 10}, {1}, {5, 5, 5}, {-1, 3}, {4, -1}, {1000, 2}};
  for (const std::vector<int64_t>& fanout : fanouts) {
    NeighborSampler sampler = SamplerOf(graph.edges(), {.fanout = fanout, .seed = 9});
    for (int64_t step = 1; step <= 5; ++step) {
      std::vector<int64_t> seeds;
      for (int i = 0; i < 300; ++i) seeds.push_back(static_cast<int64_t>(random.Below(1 << 12)));
      ExpectSound(Sampled(sampler, step, seeds), graph.edges(), seeds, fanout);
    }
  }
}

TEST(NeighborSamplerTest, TheSameForAnyThreadsAndWidth) {
  const MemoryGraph graph = GraphOf(1 << 14, RmatPairs(14, 300000, 5));
  std::set<std::string> digests;
  for (const bool wide : {false, true}) {
    for (const int threads : {1, 2, 8}) {
      ThreadTeam team(threads);
      NeighborSampler sampler =
          SamplerOf(wide ? graph.wide_edges() : graph.edges(), {.fanout = {15, 10}, .seed = 11});
      const SeedPlan plan = SeedPlan::Create({.seeds = 1 << 14, .batch = 700, .seed = 1}).value();
      Digester digester;
      for (int64_t step = 1; step <= 100; ++step)
        AddTo(digester, Sampled(sampler, step, plan.Take(step, 0, 1), {}, &team));
      digests.insert(digester.Value().Hex());
    }
  }
  EXPECT_EQ(digests.size(), 1U);
}

TEST(NeighborSamplerTest, ASeedReadsTheSameWhateverItsBatchIs) {
  const MemoryGraph graph = GraphOf(1 << 12, RmatPairs(12, 60000, 3));
  const SeedPlan plan = SeedPlan::Create({.seeds = 1 << 12, .batch = 400, .seed = 1}).value();
  std::map<int64_t, std::string> trees;
  for (const int ranks : {1, 2, 4}) {
    for (int rank = 0; rank < ranks; ++rank) {
      // A sampler that resumes at step 3 has seen nothing before.
      NeighborSampler sampler = SamplerOf(graph.edges(), {.fanout = {4, 3}, .seed = 2});
      const std::vector<int64_t> seeds = plan.Take(3, rank, ranks);
      const SampledBatch batch = Sampled(sampler, 3, seeds);
      for (size_t i = 0; i < seeds.size(); ++i) {
        const auto [tree, added] = trees.emplace(seeds[i], TreeOf(batch, batch.seed_rows[i], 0));
        EXPECT_EQ(added, ranks == 1);
        EXPECT_EQ(tree->second, TreeOf(batch, batch.seed_rows[i], 0));
      }
    }
  }
  EXPECT_EQ(trees.size(), static_cast<size_t>(plan.BatchOf(3)));
}

TEST(NeighborSamplerTest, StepsSeedsAndHopsDrawOthers) {
  std::vector<Pair> pairs;
  for (int64_t i = 1; i <= 1000; ++i) pairs.push_back({i, 0});
  const MemoryGraph graph = GraphOf(1001, pairs);
  std::set<std::vector<int64_t>> draws;
  for (const uint64_t seed : {1, 2, 3}) {
    NeighborSampler sampler = SamplerOf(graph.edges(), {.fanout = {10}, .seed = seed});
    for (int64_t step = 1; step <= 20; ++step) draws.insert(Sampled(sampler, step, {0}).nodes);
  }
  EXPECT_EQ(draws.size(), 60U);
}

TEST(NeighborSamplerTest, DrawsEveryNeighborAsOften) {
  // Of few neighbors, of many (drawn with 64 bits), and where most are taken.
  struct Case {
    int64_t degree, fanout;
  };
  for (const Case& c : {Case{10, 3}, Case{100000, 30}, Case{10, 9}, Case{9000, 40}}) {
    std::vector<Pair> pairs;
    for (int64_t i = 1; i <= c.degree; ++i) pairs.push_back({i, 0});
    const MemoryGraph graph = GraphOf(c.degree + 1, pairs);
    NeighborSampler sampler = SamplerOf(graph.edges(), {.fanout = {c.fanout}, .seed = 5});
    // In ten parts of the neighbors.
    std::vector<double> seen(10);
    constexpr int kSteps = 4000;
    for (int64_t step = 1; step <= kSteps; ++step) {
      const SampledBatch batch = Sampled(sampler, step, {0});
      ASSERT_EQ(batch.level_ends.back(), 1 + c.fanout);
      for (int64_t i = 1; i < batch.level_ends.back(); ++i)
        ++seen[(batch.nodes[i] - 1) * 10 / c.degree];
    }
    const double expected = kSteps * static_cast<double>(c.fanout) / 10;
    double chi = 0;
    for (const double count : seen) chi += (count - expected) * (count - expected) / expected;
    EXPECT_LT(chi, 33) << "9 degrees of freedom, one in 10,000";
  }
}

TEST(NeighborSamplerTest, IsolatedNodesHaveNoNeighborsAndStay) {
  const MemoryGraph none = GraphOf(5, {});
  NeighborSampler sampler = SamplerOf(none.edges(), {.fanout = {3, 3}});
  const SampledBatch batch = Sampled(sampler, 1, {4, 0, 2});
  EXPECT_THAT(batch.nodes, ElementsAre(4, 0, 2));
  EXPECT_THAT(batch.level_ends, ElementsAre(3, 3, 3));
  EXPECT_THAT(batch.indptr, ElementsAre(0, 0, 0, 0));
  const SampledBatch empty = Sampled(sampler, 1, {});
  EXPECT_THAT(empty.nodes, IsEmpty());
  EXPECT_EQ(empty.Block(0).targets, 0);
  EXPECT_THAT(empty.Block(1).indptr, ElementsAre(0));
}

TEST(NeighborSamplerTest, TakesAllOfFewNeighbors) {
  const MemoryGraph graph = GraphOf(4, {{1, 0}, {2, 0}, {3, 0}});
  for (const int64_t fanout : {3, 100, -1}) {
    NeighborSampler sampler = SamplerOf(graph.edges(), {.fanout = {fanout}});
    EXPECT_THAT(Sampled(sampler, 7, {0}).nodes, ElementsAre(0, 1, 2, 3));
  }
}

TEST(NeighborSamplerTest, EqualSeedsHaveOneRow) {
  const MemoryGraph graph = GraphOf(4, {{1, 0}, {2, 3}});
  NeighborSampler sampler = SamplerOf(graph.edges(), {.fanout = {2}});
  const SampledBatch batch = Sampled(sampler, 1, {3, 0, 3, 0, 0});
  EXPECT_THAT(batch.nodes, ElementsAre(3, 0, 1, 2));
  EXPECT_THAT(batch.seed_rows, ElementsAre(0, 1, 0, 1, 1));
}

TEST(NeighborSamplerTest, BlocksOfARingGiveTheClosedForm) {
  // 0 -> 1 -> ... -> 6 -> 0 with x[i] = i: two layers of own + neighbor give
  // x[i] + 2 x[i - 1] + x[i - 2].
  std::vector<Pair> pairs;
  for (int64_t i = 0; i < 7; ++i) pairs.push_back({i, (i + 1) % 7});
  const MemoryGraph graph = GraphOf(7, pairs);
  NeighborSampler sampler = SamplerOf(graph.edges(), {.fanout = {1, 1}});
  const std::vector<int64_t> seeds = {5, 0, 1, 6};
  const SampledBatch batch = Sampled(sampler, 1, seeds);
  std::vector<double> values(batch.nodes.begin(), batch.nodes.end());
  for (int layer = 0; layer < batch.layers(); ++layer) {
    const GraphBlock block = batch.Block(layer);
    ASSERT_EQ(block.sources, static_cast<int64_t>(values.size()));
    std::vector<double> next(values.begin(), values.begin() + block.targets);
    for (int64_t t = 0; t < block.targets; ++t) {
      for (int64_t e = block.indptr[t]; e < block.indptr[t + 1]; ++e)
        next[t] += values[block.source_rows[e]];
    }
    values = std::move(next);
  }
  for (size_t i = 0; i < seeds.size(); ++i) {
    const auto x = [&](int64_t back) { return static_cast<double>((seeds[i] + 7 - back) % 7); };
    EXPECT_EQ(values[batch.seed_rows[i]], x(0) + 2 * x(1) + x(2));
  }
}

TEST(NeighborSamplerTest, PairsToPredictAreNotRead) {
  // Pairs a_i - b_i, each in both directions and among others; the ends of a pair never see each
  // other, over any number of hops from each other directly.
  Random random(3);
  constexpr int64_t kPairs = 50;
  std::vector<Pair> pairs;
  std::vector<NodePair> predicted;
  std::vector<int64_t> seeds;
  for (int64_t i = 0; i < kPairs; ++i) {
    predicted.push_back({2 * i, 2 * i + 1});
    seeds.insert(seeds.end(), {2 * i, 2 * i + 1});
    pairs.push_back({2 * i, 2 * i + 1});
    pairs.push_back({2 * i + 1, 2 * i});
    for (int j = 0; j < 20; ++j) {
      pairs.push_back({static_cast<int64_t>(random.Below(2 * kPairs)), 2 * i});
      pairs.push_back({static_cast<int64_t>(random.Below(2 * kPairs)), 2 * i + 1});
    }
  }
  const MemoryGraph graph = GraphOf(2 * kPairs, pairs);
  for (const int64_t fanout : {5, -1}) {
    NeighborSampler sampler = SamplerOf(graph.edges(), {.fanout = {fanout, fanout}});
    const auto met = [&](const std::vector<NodePair>& excluded) {
      int64_t count = 0;
      for (int64_t step = 1; step <= 10; ++step) {
        const SampledBatch batch = Sampled(sampler, step, seeds, excluded);
        for (int64_t row = 0; row < batch.level_ends[1]; ++row) {
          for (int64_t e = batch.indptr[row]; e < batch.indptr[row + 1]; ++e)
            count += (batch.nodes[row] ^ 1) == batch.nodes[batch.source_rows[e]];
        }
      }
      return count;
    };
    EXPECT_GT(met({}), 0);
    EXPECT_EQ(met(predicted), 0);
    // The other direction is excluded, too.
    for (NodePair& pair : predicted) std::swap(pair.source, pair.target);
    EXPECT_EQ(met(predicted), 0);
  }
  // The others are all still read.
  NeighborSampler all = SamplerOf(graph.edges(), {.fanout = {-1}});
  const SampledBatch with = Sampled(all, 1, {0}), without = Sampled(all, 1, {0}, predicted);
  EXPECT_EQ(with.nodes.size(), without.nodes.size() + 1);
}

TEST(NeighborSamplerTest, ExcludesEachOfEqualEdges) {
  // As --keep-duplicates leaves them: three edges 1 -> 0.
  const std::vector<int64_t> indptr = {0, 4, 4, 4};
  const std::vector<int32_t> sources = {1, 1, 1, 2};
  const GraphEdges edges{.nodes = 3, .indptr = indptr, .sources = sources.data()};
  NeighborSampler sampler = SamplerOf(edges, {.fanout = {-1}});
  EXPECT_EQ(Sampled(sampler, 1, {0}).source_rows.size(), 4U);
  EXPECT_THAT(Sampled(sampler, 1, {0}, {{1, 0}}).nodes, ElementsAre(0, 2));
}

TEST(NeighborSamplerTest, MembersOnlyDependsOnNothingElse) {
  const MemoryGraph graph = GraphOf(1 << 11, RmatPairs(11, 40000, 8));
  std::vector<int64_t> members;
  for (int64_t v = 0; v < 1 << 11; v += 2) members.push_back(v);
  const Options options{.fanout = {6, 4}, .members_only = true, .members = members};
  NeighborSampler sampler = SamplerOf(graph.edges(), options);
  // The same members, other edges of the other nodes.
  std::vector<Pair> pairs;
  for (const Pair& pair : RmatPairs(11, 40000, 8)) {
    if (pair.source % 2 == 0 && pair.target % 2 == 0) pairs.push_back(pair);
  }
  for (int64_t v = 1; v < 1 << 11; v += 2) pairs.push_back({v, v - 1});
  const MemoryGraph other = GraphOf(1 << 11, pairs);
  NeighborSampler of_other = SamplerOf(other.edges(), options);
  for (int64_t step = 1; step <= 5; ++step) {
    const SampledBatch batch = Sampled(sampler, step, members),
                       same = Sampled(of_other, step, members);
    EXPECT_EQ(batch.nodes, same.nodes);
    EXPECT_EQ(batch.source_rows, same.source_rows);
    for (const int64_t node : batch.nodes) EXPECT_EQ(node % 2, 0);
    EXPECT_GT(batch.source_rows.size(), 1000U);
  }
  // A node that is not a member reads nothing.
  EXPECT_EQ(Sampled(sampler, 1, {1, 3}).nodes.size(), 2U);
}

TEST(NeighborSamplerTest, RefusesWhatIsNoNodeAndNoGraph) {
  const MemoryGraph graph = GraphOf(100, RmatPairs(6, 500, 1));
  NeighborSampler sampler = SamplerOf(graph.edges(), {.fanout = {5, 5}});
  for (const int64_t bad : {int64_t{-1}, int64_t{100}, int64_t{1} << 32, int64_t{1} << 40}) {
    const auto batch = sampler.Sample(1, std::vector<int64_t>{3, bad});
    EXPECT_EQ(batch.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(batch.status().message(), HasSubstr("seed 1"));
  }
  for (const std::vector<int64_t>& fanout :
       {std::vector<int64_t>{}, {0}, {-2}, {1 << 21}, std::vector<int64_t>(9, 1)})
    EXPECT_FALSE(NeighborSampler::Create(graph.edges(), {.fanout = fanout}).ok());
  const std::vector<int64_t> members = {100};
  EXPECT_FALSE(NeighborSampler::Create(graph.edges(),
                                       {.fanout = {1}, .members_only = true, .members = members})
                   .ok());
}

// Somebody writes to the files while they are mapped.
TEST(NeighborSamplerTest, ChangedArraysAreAnErrorAndReadNothingOutside) {
  MemoryGraph graph = GraphOf(64, RmatPairs(6, 500, 1));
  std::vector<int64_t> all;
  for (int64_t v = 0; v < 64; ++v) all.push_back(v);
  for (const bool members : {false, true}) {
    for (int64_t v = 0; v <= 64; v += 16) {
      for (const int64_t bad : {int64_t{-5}, int64_t{1} << 40}) {
        MemoryGraph changed = graph;
        NeighborSampler sampler = SamplerOf(
            changed.edges(), {.fanout = {-1, 2}, .members_only = members, .members = all});
        changed.indptr[v] = bad;
        EXPECT_EQ(sampler.Sample(1, all).status().code(), absl::StatusCode::kDataLoss);
        changed.indptr[v] = graph.indptr[v];
        changed.sources[v] = static_cast<int32_t>(bad < 0 ? bad : 64);
        EXPECT_EQ(sampler.Sample(1, all).status().code(), absl::StatusCode::kDataLoss);
        changed.sources[v] = graph.sources[v];
        NeighborSampler fresh =
            SamplerOf(graph.edges(), {.fanout = {-1, 2}, .members_only = members, .members = all});
        EXPECT_EQ(Sampled(sampler, 1, all).nodes, Sampled(fresh, 1, all).nodes)
            << "an error leaves nothing behind";
      }
    }
  }
}

// Places of edges are beyond 32 bits. Pages that nobody writes take no memory.
TEST(NeighborSamplerTest, ReadsBeyondTwoToTheThirtyFirstEdges) {
  constexpr int64_t kMany = (int64_t{1} << 31) + 1000;
  constexpr size_t kBytes = (kMany + 5) * sizeof(int32_t);
  void* const memory = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  auto* const sources = static_cast<int32_t*>(memory);
  for (int i = 0; i < 5; ++i) sources[kMany + i] = i + 2;
  std::vector<int64_t> indptr = {0, kMany, kMany + 5};
  indptr.resize(8, kMany + 5);
  const GraphEdges edges{.nodes = 7, .indptr = indptr, .sources = sources};
  NeighborSampler all = SamplerOf(edges, {.fanout = {-1}});
  EXPECT_THAT(Sampled(all, 1, {1}).nodes, ElementsAre(1, 2, 3, 4, 5, 6));
  NeighborSampler some = SamplerOf(edges, {.fanout = {3}});
  EXPECT_EQ(Sampled(some, 1, {1}).nodes.size(), 4U);
  // Of its 2^31 edges, three are read.
  EXPECT_THAT(Sampled(some, 1, {0}).nodes, ElementsAre(0, 0));
  EXPECT_EQ(Sampled(some, 1, {0}).source_rows.size(), 3U);
  EXPECT_EQ(all.Sample(1, std::vector<int64_t>{0}).status().code(),
            absl::StatusCode::kResourceExhausted);
  munmap(memory, kBytes);
}

TEST(NeighborSamplerTest, RefusesBatchesWithTooManyEdges) {
  const MemoryGraph graph = GraphOf(100, RmatPairs(6, 500, 1));
  NeighborSampler sampler = SamplerOf(graph.edges(), {.fanout = {-1, -1}, .edges_max = 50});
  std::vector<int64_t> all;
  for (int64_t v = 0; v < 100; ++v) all.push_back(v);
  EXPECT_EQ(sampler.Sample(1, all).status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(sampler.Sample(1, std::vector<int64_t>{99}).ok());
}

TEST(NeighborSamplerTest, ReadsAFolder) {
  const TempDir dir;
  testing_support::WritePlantedGraph({.nodes = 500}, dir.Join("g"));
  const GraphFolder folder = GraphFolder::Open(dir.Join("g")).value();
  NeighborSampler sampler = SamplerOf(folder.edges(), {.fanout = {5, 5}});
  const std::vector<int64_t> seeds(folder.train().begin(), folder.train().end());
  ExpectSound(Sampled(sampler, 1, seeds), folder.edges(), seeds, {5, 5});
}

}  // namespace
}  // namespace longhaul

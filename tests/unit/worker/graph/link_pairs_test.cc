#include "worker/graph/link_pairs.h"

#include <map>
#include <set>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/graphs.h"

namespace longhaul {
namespace {

using testing_support::GraphOf;
using testing_support::MemoryGraph;
using testing_support::Pair;
using testing_support::RmatPairs;

LinkedPairs EdgesAlone(const GraphEdges& edges) { return LinkedPairs(edges, {}); }

TEST(LinkPairsTest, EachEdgeHasItsEnds) {
  const MemoryGraph graph = GraphOf(64, RmatPairs(6, 500, 1));
  for (const GraphEdges& edges : {graph.edges(), graph.wide_edges()}) {
    std::set<std::pair<int64_t, int64_t>> seen;
    for (int64_t e = 0; e < edges.edges(); ++e) {
      const NodePair pair = PairOfEdge(edges, e);
      EXPECT_TRUE(HasEdge(edges, pair.source, pair.target));
      seen.emplace(pair.source, pair.target);
    }
    EXPECT_EQ(static_cast<int64_t>(seen.size()), edges.edges());
    for (int64_t a = -1; a <= 64; ++a) {
      for (int64_t b = -1; b <= 64; ++b) EXPECT_EQ(HasEdge(edges, a, b), seen.count({a, b}) == 1);
    }
  }
}

TEST(LinkPairsTest, PairsAreLinkedInBothDirections) {
  const MemoryGraph graph = GraphOf(5, {{0, 1}});
  const std::vector<NodePair> further = {{3, 2}};
  const std::vector<absl::Span<const NodePair>> all = {further, {}};
  const LinkedPairs linked(graph.edges(), all);
  for (int64_t a = 0; a < 5; ++a) {
    for (int64_t b = 0; b < 5; ++b) {
      const std::set<int64_t> pair = {a, b}, edge = {0, 1}, other = {2, 3};
      EXPECT_EQ(linked.Linked(a, b), a == b || pair == edge || pair == other);
    }
  }
}

TEST(LinkPairsTest, NegativesAreNotPositives) {
  const MemoryGraph graph = GraphOf(64, RmatPairs(6, 2000, 1));
  const GraphEdges edges = graph.edges();
  const std::vector<NodePair> further = {{0, 63}, {62, 1}}, none, batch = {{1, 2}, {3, 4}, {9, 50}};
  const std::vector<absl::Span<const NodePair>> all = {further};
  const LinkedPairs linked(edges, all), wide(graph.wide_edges(), all);
  std::set<std::vector<int64_t>> drawn;
  for (const std::vector<NodePair>& pairs : {none, batch}) {
    for (int64_t source = 0; source < 64; ++source) {
      for (int64_t step = 1; step <= 20; ++step) {
        std::vector<int64_t> targets;
        for (int64_t number = 0; number < 5; ++number) {
          const NodePair pair{source, (source + 1) % 64};
          targets.push_back(NegativeOf(linked, pairs, 7, step, pair, number));
          EXPECT_EQ(targets.back(), NegativeOf(wide, pairs, 7, step, pair, number));
          EXPECT_FALSE(linked.Linked(source, targets.back()));
        }
        drawn.insert(targets);
      }
    }
  }
  EXPECT_GT(drawn.size(), 600U);
}

TEST(LinkPairsTest, NegativesAreTargetsAsOftenAsPairsHaveThem) {
  const MemoryGraph graph = GraphOf(100, {});
  const LinkedPairs linked = EdgesAlone(graph.edges());
  // 50 three times as often as 51.
  const std::vector<NodePair> pairs = {{0, 50}, {1, 50}, {2, 50}, {3, 51}};
  std::map<int64_t, int> counts;
  for (int64_t step = 1; step <= 4000; ++step)
    ++counts[NegativeOf(linked, pairs, 1, step, {7, 8}, 0)];
  EXPECT_EQ(counts.size(), 2U);
  EXPECT_NEAR(counts[50], 3000, 150);
}

TEST(LinkPairsTest, FindsTheOnlyNegativeAndKnowsThatThereIsNone) {
  std::vector<Pair> pairs;
  for (int64_t v = 1; v < 2000; ++v) {
    if (v != 1234) pairs.push_back({v % 2 == 0 ? 0 : v, v % 2 == 0 ? v : 0});
  }
  MemoryGraph graph = GraphOf(2000, pairs);
  for (int64_t number = 0; number < 5; ++number)
    EXPECT_EQ(NegativeOf(EdgesAlone(graph.edges()), {}, 1, 1, {0, 1}, number), 1234);
  pairs.push_back({1234, 0});
  graph = GraphOf(2000, pairs);
  EXPECT_EQ(NegativeOf(EdgesAlone(graph.edges()), {}, 1, 1, {0, 1}, 0), -1);
  graph = GraphOf(1, {});
  EXPECT_EQ(NegativeOf(EdgesAlone(graph.edges()), {}, 1, 1, {0, 0}, 0), -1);
}

TEST(LinkPairsTest, GroupsHaveTargetsOfHeldOutPairs) {
  std::vector<NodePair> pairs;
  for (int64_t i = 0; i < 40; ++i) pairs.push_back({i, 100 + i});
  const std::vector<int64_t> first = NegativesOfGroup(1000, pairs, 1, 0, 500);
  EXPECT_EQ(first, NegativesOfGroup(1000, pairs, 1, 0, 500));
  EXPECT_NE(first, NegativesOfGroup(1000, pairs, 1, 1, 500));
  EXPECT_NE(first, NegativesOfGroup(1000, pairs, 2, 0, 500));
  for (const int64_t node : first) EXPECT_TRUE(100 <= node && node < 140) << node;
  // Few targets: any nodes.
  pairs.resize(3);
  std::set<int64_t> nodes;
  for (const int64_t node : NegativesOfGroup(1000, pairs, 1, 0, 500)) nodes.insert(node);
  EXPECT_GT(nodes.size(), 300U);
}

}  // namespace
}  // namespace longhaul

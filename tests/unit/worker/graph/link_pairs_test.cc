#include "worker/graph/link_pairs.h"

#include <set>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/graphs.h"

namespace longhaul {
namespace {

using ::testing::Each;
using ::testing::IsEmpty;
using testing_support::GraphOf;
using testing_support::MemoryGraph;
using testing_support::Pair;
using testing_support::RmatPairs;

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

TEST(LinkPairsTest, NegativesAreNotPositives) {
  const MemoryGraph graph = GraphOf(64, RmatPairs(6, 2000, 1));
  const GraphEdges edges = graph.edges();
  std::set<std::vector<int64_t>> drawn;
  for (int64_t source = 0; source < 64; ++source) {
    for (int64_t step = 1; step <= 20; ++step) {
      const std::vector<int64_t> targets = NegativeTargets(edges, 7, step, source, 5);
      EXPECT_EQ(targets, NegativeTargets(graph.wide_edges(), 7, step, source, 5));
      for (const int64_t target : targets) {
        EXPECT_NE(target, source);
        EXPECT_FALSE(HasEdge(edges, source, target));
        EXPECT_FALSE(HasEdge(edges, target, source));
      }
      drawn.insert(targets);
    }
  }
  EXPECT_GT(drawn.size(), 300U);
}

TEST(LinkPairsTest, FindsTheOnlyNegativeAndKnowsThatThereIsNone) {
  std::vector<Pair> pairs;
  for (int64_t v = 1; v < 2000; ++v) {
    if (v != 1234) pairs.push_back({v % 2 == 0 ? 0 : v, v % 2 == 0 ? v : 0});
  }
  EXPECT_THAT(NegativeTargets(GraphOf(2000, pairs).edges(), 1, 1, 0, 5), Each(1234));
  pairs.push_back({1234, 0});
  EXPECT_THAT(NegativeTargets(GraphOf(2000, pairs).edges(), 1, 1, 0, 5), IsEmpty());
  EXPECT_THAT(NegativeTargets(GraphOf(1, {}).edges(), 1, 1, 0, 5), IsEmpty());
}

}  // namespace
}  // namespace longhaul

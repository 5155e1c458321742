// Pairs for link prediction: the edge of a number, which pairs are linked, and nodes that are not.
// They require that the sources of a target ascend, as in a graph's folder.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "common/graph/graph_folder.h"

namespace longhaul {

// The ends of edge `edge`, 0 <= edge < edges(): what a number of SeedPlan stands for.
NodePair PairOfEdge(const GraphEdges& edges, int64_t edge);

// Whether the graph has the edge. False also if a node is out of range.
bool HasEdge(const GraphEdges& edges, int64_t source, int64_t target);

// Which pairs are linked, in either direction: by an edge of the graph or by one of further pairs.
// Takes 8 bytes for each of these. Immutable, so thread-safe.
class LinkedPairs {
 public:
  // The arrays of `edges` outlive the object. Nodes of pairs are those of the graph.
  LinkedPairs(const GraphEdges& edges, absl::Span<const absl::Span<const NodePair>> further);

  // Also of a node with itself.
  bool Linked(int64_t a, int64_t b) const;
  int64_t nodes() const { return edges_.nodes; }

 private:
  GraphEdges edges_;
  // The smaller node in the upper half; sorted.
  std::vector<uint64_t> further_;
};

// A node that is not linked with the pair's source: a negative of the pair. It is the target of one
// of `pairs`, so that a node is as often a negative as it is a positive, and its degree tells
// nothing; in a bipartite graph it is on the right side. If none is found there, it is any node.
// A pure function of the arguments: `number` tells the negatives of a pair apart. -1: the source is
// linked with all nodes.
int64_t NegativeOf(const LinkedPairs& linked, absl::Span<const NodePair> pairs, uint64_t seed,
                   int64_t step, const NodePair& pair, int64_t number);

// Negatives of held-out pairs, that up to this many of them in a row have in common: a pair's group
// is its place / kPairsOfGroup.
inline constexpr int64_t kPairsOfGroup = 64;
// `count` nodes for group `group`: targets of `pairs`, which are all held-out pairs; any nodes if
// the pairs have fewer than 32 targets. Which of them are linked with a pair's source is for the
// caller to find. A pure function of the arguments.
std::vector<int64_t> NegativesOfGroup(int64_t nodes, absl::Span<const NodePair> pairs,
                                      uint64_t seed, int64_t group, int64_t count);

}  // namespace longhaul

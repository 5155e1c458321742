// Pairs for link prediction: the edge of a number, and nodes that are no neighbors. Pure. They
// require that the sources of a target ascend, as in a graph's folder.
#pragma once

#include <cstdint>
#include <vector>

#include "common/graph/graph_folder.h"
#include "worker/graph/neighbor_sampler.h"

namespace longhaul {

// The ends of edge `edge`, 0 <= edge < edges(): what a number of SeedPlan stands for.
NodePair PairOfEdge(const GraphEdges& edges, int64_t edge);

// Whether the graph has the edge. False also if a node is out of range.
bool HasEdge(const GraphEdges& edges, int64_t source, int64_t target);

// `count` targets that are neither the source nor linked to it in either direction, uniform among
// all such nodes, with replacement: a function of (seed, step, source, number). After many draws
// that hit neighbors, which only a source that is linked to almost all nodes sees, the search goes
// on from the drawn node. Empty: every node is a neighbor.
std::vector<int64_t> NegativeTargets(const GraphEdges& edges, uint64_t seed, int64_t step,
                                     int64_t source, int64_t count);

}  // namespace longhaul

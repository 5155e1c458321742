// The samples of NeighborSampler, by the loop that one would write first: one node after another,
// without threads, prefetching and tables of bits. The reference of the benchmark.
#pragma once

#include <cstdint>
#include <vector>

#include "worker/graph/neighbor_sampler.h"

namespace longhaul::benchmark {

class PlainSampler {
 public:
  PlainSampler(const GraphEdges& edges, std::vector<int64_t> fanout, uint64_t seed)
      : edges_(edges), fanout_(std::move(fanout)), seed_(seed), rows_(edges.nodes) {}

  // The seeds differ.
  SampledBatch Sample(int64_t step, const std::vector<int64_t>& seeds);

 private:
  void Draw(int64_t step, int hop, int64_t node, std::vector<int64_t>& sources) const;

  const GraphEdges edges_;
  const std::vector<int64_t> fanout_;
  const uint64_t seed_;
  // By node: its row in the level.
  std::vector<int32_t> rows_;
};

}  // namespace longhaul::benchmark

#include "tests/benchmark/graph/plain_sampler.h"

#include <algorithm>
#include <array>

#include "common/base/random.h"

namespace longhaul::benchmark {

void PlainSampler::Draw(int64_t step, int hop, int64_t node, std::vector<int64_t>& sources) const {
  const int64_t begin = edges_.indptr[node], degree = edges_.indptr[node + 1] - begin;
  const int64_t fanout = fanout_[hop];
  if (degree <= fanout) {
    for (int64_t i = 0; i < degree; ++i) sources.push_back(edges_.sources[begin + i]);
    return;
  }
  // As NeighborSampler, so that the results are the same.
  const uint64_t key = seed_ ^ 0x6e65696768626f72;
  const uint64_t counter = static_cast<uint64_t>(node) | static_cast<uint64_t>(hop) << 32;
  std::vector<int64_t> drawn;
  std::array<uint32_t, 4> words = {};
  const bool narrow = degree <= 1 << 16;
  const int of_a_call = narrow ? 4 : 2;
  for (int64_t i = 0; i < fanout; ++i) {
    const auto word = static_cast<int>(i % of_a_call);
    if (word == 0)
      words = Philox(key, static_cast<uint64_t>(step),
                     counter + (static_cast<uint64_t>(i / of_a_call) << 40));
    const auto bound = static_cast<uint64_t>(degree - fanout + i + 1);
    int64_t position;
    if (narrow) {
      position = static_cast<int64_t>(words[word] * bound >> 32);
    } else {
      const uint64_t wide = static_cast<uint64_t>(words[2 * word + 1]) << 32 | words[2 * word];
      position = static_cast<int64_t>(static_cast<unsigned __int128>(wide) * bound >> 64);
    }
    if (std::find(drawn.begin(), drawn.end(), position) != drawn.end())
      position = static_cast<int64_t>(bound) - 1;
    drawn.push_back(position);
    sources.push_back(edges_.sources[begin + position]);
  }
}

SampledBatch PlainSampler::Sample(int64_t step, const std::vector<int64_t>& seeds) {
  SampledBatch batch;
  batch.nodes = seeds;
  batch.level_ends = {static_cast<int64_t>(seeds.size())};
  batch.indptr = {0};
  for (size_t i = 0; i < seeds.size(); ++i) batch.seed_rows.push_back(static_cast<int32_t>(i));
  for (int hop = 0; hop < static_cast<int>(fanout_.size()); ++hop) {
    const int64_t first = hop == 0 ? 0 : batch.level_ends[hop - 1], end = batch.level_ends[hop];
    std::vector<int64_t> sources;
    for (int64_t row = first; row < end; ++row) {
      Draw(step, hop, batch.nodes[row], sources);
      batch.indptr.push_back(static_cast<int64_t>(batch.source_rows.size() + sources.size()));
    }
    std::vector<int64_t> level = sources;
    std::sort(level.begin(), level.end());
    level.erase(std::unique(level.begin(), level.end()), level.end());
    for (const int64_t node : level) {
      rows_[node] = static_cast<int32_t>(batch.nodes.size());
      batch.nodes.push_back(node);
    }
    for (const int64_t source : sources) batch.source_rows.push_back(rows_[source]);
    batch.level_ends.push_back(static_cast<int64_t>(batch.nodes.size()));
  }
  return batch;
}

}  // namespace longhaul::benchmark

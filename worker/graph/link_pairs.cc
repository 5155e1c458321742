#include "worker/graph/link_pairs.h"

#include <algorithm>

#include "common/base/check.h"
#include "common/base/random.h"

namespace longhaul {
namespace {

constexpr uint64_t kNegativeStream = 0x6e6567617469766d;
constexpr int kDrawsMax = 64;

}  // namespace

NodePair PairOfEdge(const GraphEdges& edges, int64_t edge) {
  LH_CHECK(0 <= edge && edge < edges.edges(), "an edge of the graph");
  const auto after = std::upper_bound(edges.indptr.begin(), edges.indptr.end(), edge);
  return {.source = edges.sources != nullptr ? edges.sources[edge] : edges.wide_sources[edge],
          .target = after - edges.indptr.begin() - 1};
}

bool HasEdge(const GraphEdges& edges, int64_t source, int64_t target) {
  if (source < 0 || source >= edges.nodes || target < 0 || target >= edges.nodes) return false;
  const int64_t begin = edges.indptr[target], end = edges.indptr[target + 1];
  return edges.sources != nullptr
             ? std::binary_search(edges.sources + begin, edges.sources + end, source)
             : std::binary_search(edges.wide_sources + begin, edges.wide_sources + end, source);
}

std::vector<int64_t> NegativeTargets(const GraphEdges& edges, uint64_t seed, int64_t step,
                                     int64_t source, int64_t count) {
  const auto is_negative = [&](int64_t target) {
    return target != source && !HasEdge(edges, source, target) && !HasEdge(edges, target, source);
  };
  const auto nodes = static_cast<uint64_t>(edges.nodes);
  std::vector<int64_t> targets;
  for (int64_t number = 0; number < count; ++number) {
    int64_t target = 0;
    bool found = false;
    for (int draw = 0; draw < kDrawsMax && !found; ++draw) {
      const uint64_t random = Philox64(
          seed ^ kNegativeStream, static_cast<uint64_t>(step) << 32 | static_cast<uint64_t>(draw),
          static_cast<uint64_t>(source) << 32 | static_cast<uint64_t>(number));
      target = static_cast<int64_t>(static_cast<unsigned __int128>(random) * nodes >> 64);
      found = is_negative(target);
    }
    for (uint64_t i = 0; i < nodes && !found; ++i) {
      target = (target + 1) % edges.nodes;
      found = is_negative(target);
    }
    if (!found) return {};
    targets.push_back(target);
  }
  return targets;
}

}  // namespace longhaul

#include "common/partition/hops.h"

#include <algorithm>
#include <utility>

namespace longhaul {

std::vector<HopGroup> HopGroups(const PartitionMap& map, const Topology& topology, int rank) {
  std::vector<HopGroup> groups;
  const auto add = [&](std::vector<int> ranks, Level narrow, Level wide) {
    if (ranks.size() == 1) return;
    std::sort(ranks.begin(), ranks.end(),
              [&](int a, int b) { return topology.piece(a) < topology.piece(b); });
    groups.push_back({std::move(ranks), narrow, wide});
  };
  // The ranks of this rank's `outer` group that have the same pieces, each in its own `inner`
  // group.
  const auto across = [&](Level inner, Level outer) {
    std::vector<int> ranks;
    for (const int other : topology.Group(outer, rank)) {
      if (topology.Pieces(inner, other) == topology.Pieces(inner, rank)) ranks.push_back(other);
    }
    return ranks;
  };
  if (!topology.CheckEven(Level::kNode).ok()) {
    add(topology.Group(Level::kPool, rank), Level::kRank, Level::kPool);
    return groups;
  }
  add(across(Level::kNode, Level::kPool), Level::kNode, Level::kPool);
  add(topology.Group(Level::kNode, rank), Level::kRank, Level::kNode);
  if (!map.uses_pairs()) return groups;
  add(across(Level::kPair, Level::kNode), Level::kPair, Level::kNode);
  add(topology.Group(Level::kPair, rank), Level::kRank, Level::kPair);
  return groups;
}

std::vector<HopLevels> HopPath(Level wide, Level narrow, absl::FunctionRef<bool(HopLevels)> has) {
  if (const HopLevels direct{narrow, wide}; has(direct)) return {direct};
  std::vector<HopLevels> path;
  const auto append = [&](Level from, Level to) {
    if (const HopLevels hop{to, from}; has(hop)) path.push_back(hop);
  };
  if (wide == Level::kPool && narrow < Level::kPool) append(Level::kPool, Level::kNode);
  if (wide >= Level::kNode && narrow == Level::kPair) append(Level::kNode, Level::kPair);
  if (wide >= Level::kNode && narrow == Level::kRank) append(Level::kNode, Level::kRank);
  if (wide == Level::kPair && narrow == Level::kRank) append(Level::kPair, Level::kRank);
  return path;
}

}  // namespace longhaul

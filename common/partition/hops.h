// The collectives by which ranks of a pool exchange state that is split over levels: which ranks
// take part in each, and in which order they follow on the way from one level to another. The
// engine makes a communicator for each; the planner counts their bytes. Pure values.
#pragma once

#include <vector>

#include "absl/functional/function_ref.h"
#include "common/partition/partition_map.h"
#include "common/partition/topology.h"

namespace longhaul {

// One collective on the path between two levels, as a rank sees it.
struct HopGroup {
  // In the order of the pieces that they hold. The rank itself is among them.
  std::vector<int> ranks;
  // A rank's part is what it holds of something that is split over `wide`. All parts together are
  // what it holds of something that is split over `narrow`.
  Level narrow = Level::kRank, wide = Level::kRank;
};

// The groups of `rank` that the map needs in this pool, without those of one rank. Requires
// CheckTopology. Every rank has the same number of them, in the same order.
std::vector<HopGroup> HopGroups(const PartitionMap& map, const Topology& topology, int rank);

// The levels between which the hops go that gather what is split over `wide` until it is split over
// `narrow`, in their order. Reductions take them in reverse order. Empty: the two levels are the
// same in this pool. `has`: whether there is a hop. `narrow` must not be wider than `wide`.
struct HopLevels {
  Level narrow = Level::kRank, wide = Level::kRank;
};
std::vector<HopLevels> HopPath(Level wide, Level narrow, absl::FunctionRef<bool(HopLevels)> has);

}  // namespace longhaul

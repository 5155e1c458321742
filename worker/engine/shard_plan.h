// Which elements of each unit a rank holds and updates. Pure values, the same on every rank.
//
// Each unit is cut into as many pieces as the pool has ranks, at multiples of a block (OwnedBlocks),
// whatever the partition is: owners hold the truth of what the exchange writes, and compute their
// part of the gradient norm, so that its bits do not depend on the partition.
#pragma once

#include <cstdint>
#include <vector>

#include "common/layout/model_layout.h"
#include "common/partition/partition_map.h"

namespace longhaul {

struct ElementRange {
  int64_t first = 0, count = 0;
  int64_t end() const { return first + count; }
  friend bool operator==(const ElementRange&, const ElementRange&) = default;
};

// A piece of a unit that the optimizer updates as one run.
struct UpdateRun {
  int unit = 0;
  ElementRange range;  // Of the unit.
  bool decay = false;
};

class ShardPlan {
 public:
  // Requires CheckTopology.
  ShardPlan(const ModelLayout& layout, const PartitionMap& map, const Topology& topology, int rank);

  const PartitionMap& map() const { return map_; }
  const Topology& topology() const { return topology_; }
  int rank() const { return rank_; }

  // By piece: ascending, without gaps.
  const std::vector<ElementRange>& pieces(int unit) const { return pieces_[unit]; }
  // This rank's piece.
  const ElementRange& owned(int unit) const { return pieces_[unit][topology_.piece(rank_)]; }
  // What this rank, or `rank`, holds of something that is split over `level`.
  ElementRange Held(int unit, Level level) const { return Held(unit, level, rank_); }
  ElementRange Held(int unit, Level level, int rank) const;
  // What this rank updates, in the order of the units.
  const std::vector<UpdateRun>& runs() const { return runs_; }

 private:
  PartitionMap map_;
  Topology topology_;
  int rank_;
  std::vector<std::vector<ElementRange>> pieces_;  // By unit.
  std::vector<UpdateRun> runs_;
};

}  // namespace longhaul

// Decides which elements of each unit a rank holds and updates. Pure values, which agree on all
// ranks.
//
// For any partition, each unit is cut into as many pieces as the pool has ranks, at multiples of a
// block (CutUnits). Each piece has one owner. What the session reads and writes are the owners'
// values. The owners also compute their part of the gradient norm, so that its bits do not depend
// on the partition.
#pragma once

#include <cstdint>
#include <vector>

#include "common/layout/unit_pieces.h"
#include "common/partition/partition_map.h"
#include "worker/optim/optimizer.h"

namespace longhaul {

struct ElementRange {
  int64_t first = 0, count = 0;
  int64_t end() const { return first + count; }
  friend bool operator==(const ElementRange&, const ElementRange&) = default;
};

// A piece of a unit that the optimizer updates as one subgroup.
struct UnitSubgroup {
  int unit = 0;
  // In elements of the unit.
  ElementRange range;
  SubgroupShape shape;
};

// Subgroups are cut at multiples of this.
inline constexpr int64_t kSubgroupGrain = 128;

class ShardPlan {
 public:
  // Requires CheckTopology. With CutRule::kMatrices each hidden matrix is one subgroup.
  // `subgroup_elements`: the largest size of all other subgroups, a multiple of kSubgroupGrain. 0:
  // no bound.
  ShardPlan(const ModelLayout& layout, const PartitionMap& map, const Topology& topology, int rank,
            CutRule rule = CutRule::kBlocks, int64_t subgroup_elements = 0);

  const PartitionMap& map() const { return map_; }
  const Topology& topology() const { return topology_; }
  int rank() const { return rank_; }

  // All pieces of a unit, ascending, without gaps.
  const std::vector<ElementRange>& pieces(int unit) const { return pieces_[unit]; }
  // This rank's piece.
  const ElementRange& owned(int unit) const { return pieces_[unit][topology_.piece(rank_)]; }
  BlockRange OwnedBlocks(int unit) const { return blocks_[unit][topology_.piece(rank_)]; }
  // What this rank, or `rank`, holds of a unit that is split over `level`.
  ElementRange Held(int unit, Level level) const { return Held(unit, level, rank_); }
  ElementRange Held(int unit, Level level, int rank) const;
  // The subgroups that this rank updates, in the order of the units.
  const std::vector<UnitSubgroup>& subgroups() const { return subgroups_; }
  // The index of the unit's first subgroup. A unit's subgroups end where those of unit + 1 begin;
  // `unit` may be the number of units.
  int first_subgroup(int unit) const { return first_subgroups_[unit]; }

 private:
  PartitionMap map_;
  Topology topology_;
  int rank_;
  // By unit, by piece.
  std::vector<std::vector<BlockRange>> blocks_;
  // The same, in elements.
  std::vector<std::vector<ElementRange>> pieces_;
  std::vector<UnitSubgroup> subgroups_;
  // By unit; then the number of subgroups.
  std::vector<int> first_subgroups_ = {0};
};

}  // namespace longhaul

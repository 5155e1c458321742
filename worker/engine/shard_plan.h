// Which elements of each unit a rank owns, and which it updates. Pure values, the same on every
// rank.
//
// Each unit is cut over the ranks at multiples of a block (OwnedBlocks), whatever the preset is:
// owners hold the truth of what the exchange writes, and compute their part of the gradient norm,
// so that its bits do not depend on the preset.
#pragma once

#include <cstdint>
#include <vector>

#include "common/layout/model_layout.h"
#include "worker/engine/partition_map.h"
#include "worker/optim/optimizer.h"

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
  ShardPlan(const ModelLayout& layout, const PartitionMap& partition, int rank, int ranks);

  // What each rank owns of a unit, by rank: ascending, without gaps.
  const std::vector<ElementRange>& owners(int unit) const { return owners_[unit]; }
  const ElementRange& owned(int unit) const { return owners_[unit][rank_]; }
  // What this rank updates: its part if the optimizer is split, else everything. In the order of
  // the units.
  const std::vector<UpdateRun>& runs() const { return runs_; }
  bool splits_optimizer() const { return splits_optimizer_; }
  // This rank keeps the gradients of its part alone. Then the optimizer is split, too.
  bool splits_gradients() const { return splits_gradients_; }

 private:
  int rank_;
  bool splits_optimizer_, splits_gradients_;
  std::vector<std::vector<ElementRange>> owners_;  // By unit, by rank.
  std::vector<UpdateRun> runs_;
};

}  // namespace longhaul

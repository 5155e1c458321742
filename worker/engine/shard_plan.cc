#include "worker/engine/shard_plan.h"

#include <algorithm>

#include "common/base/check.h"
#include "common/layout/fragment_layout.h"

namespace longhaul {
namespace {

std::vector<ElementRange> CutUnit(int64_t elements, int count) {
  std::vector<ElementRange> pieces;
  for (int piece = 0; piece < count; ++piece) {
    const BlockRange blocks = OwnedBlocks(elements, piece, count);
    const int64_t first = std::min(blocks.first * kBlockElements, elements);
    pieces.push_back({first, std::min(blocks.end() * kBlockElements, elements) - first});
  }
  return pieces;
}

// The tensors of a unit inside `range`, neighbours with the same decay joined.
void AppendRuns(const UnitLayout& layout, int unit, const ElementRange& range,
                std::vector<UpdateRun>& runs) {
  const size_t before = runs.size();
  for (const TensorLayout& tensor : layout.tensors) {
    const int64_t first = std::max(tensor.offset, range.first);
    const int64_t end = std::min(tensor.offset + tensor.elements, range.end());
    if (first >= end) continue;
    const bool joins = runs.size() > before && runs.back().decay == tensor.decay &&
                       runs.back().range.end() == first;
    if (joins) {
      runs.back().range.count += end - first;
    } else {
      runs.push_back({unit, {first, end - first}, tensor.decay});
    }
  }
}

}  // namespace

ShardPlan::ShardPlan(const ModelLayout& layout, const PartitionMap& map, const Topology& topology,
                     int rank)
    : map_(map), topology_(topology), rank_(rank) {
  LH_CHECK(CheckTopology(map, topology).ok(), "the pool cannot be split so");
  for (int unit = 0; unit < static_cast<int>(layout.units.size()); ++unit) {
    pieces_.push_back(CutUnit(layout.units[unit].elements, topology.ranks()));
    AppendRuns(layout.units[unit], unit, Held(unit, map.optimizer), runs_);
  }
}

ElementRange ShardPlan::Held(int unit, Level level, int rank) const {
  const PieceRange held = topology_.Pieces(level, rank);
  const int64_t first = pieces_[unit][held.first].first;
  return {first, pieces_[unit][held.end() - 1].end() - first};
}

}  // namespace longhaul

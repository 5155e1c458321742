#include "worker/engine/shard_plan.h"

#include <algorithm>

#include "common/base/check.h"

namespace longhaul {
namespace {

std::vector<ElementRange> InElements(const std::vector<BlockRange>& blocks, int64_t elements) {
  std::vector<ElementRange> pieces;
  for (const BlockRange& range : blocks) {
    const int64_t first = std::min(range.first * kBlockElements, elements);
    pieces.push_back({first, std::min(range.end() * kBlockElements, elements) - first});
  }
  return pieces;
}

// The parts of a unit's tensors inside `range`. Neighbours with the same decay are joined; with
// kMatrices, hidden matrices stay apart.
void AppendSubgroups(const UnitLayout& layout, int unit, const ElementRange& range, CutRule rule,
                     std::vector<UnitSubgroup>& subgroups) {
  const size_t before = subgroups.size();
  for (const TensorLayout& tensor : layout.tensors) {
    const int64_t first = std::max(tensor.offset, range.first);
    const int64_t end = std::min(tensor.offset + tensor.elements, range.end());
    if (first >= end) continue;
    if (rule == CutRule::kMatrices && tensor.matrix) {
      LH_CHECK(end - first == tensor.elements, "a matrix is cut");
      subgroups.push_back({unit,
                           {first, end - first},
                           {.elements = end - first,
                            .decay = tensor.decay,
                            .rows = tensor.shape[0],
                            .columns = tensor.shape[1]}});
      continue;
    }
    const bool joins = subgroups.size() > before && subgroups.back().shape.decay == tensor.decay &&
                       !subgroups.back().shape.matrix() && subgroups.back().range.end() == first;
    if (!joins) subgroups.push_back({unit, {first, 0}, {.decay = tensor.decay}});
    subgroups.back().range.count += end - first;
    subgroups.back().shape.elements += end - first;
  }
}

// Cuts a subgroup into parts of at most so many elements.
void AppendCut(const UnitSubgroup& subgroup, int64_t elements_max,
               std::vector<UnitSubgroup>& subgroups) {
  for (int64_t first = 0; first < subgroup.range.count; first += elements_max) {
    UnitSubgroup& part = subgroups.emplace_back(subgroup);
    part.range = {subgroup.range.first + first,
                  std::min(elements_max, subgroup.range.count - first)};
    part.shape.elements = part.range.count;
  }
}

}  // namespace

ShardPlan::ShardPlan(const ModelLayout& layout, const PartitionMap& map, const Topology& topology,
                     int rank, CutRule rule, int64_t subgroup_elements)
    : map_(map),
      topology_(topology),
      rank_(rank),
      blocks_(CutUnits(layout, topology.ranks(), rule)) {
  LH_CHECK(CheckTopology(map, topology).ok(), "the pool cannot be split so");
  LH_CHECK(subgroup_elements >= 0 && subgroup_elements % kSubgroupGrain == 0,
           "subgroups are cut at grains");
  for (int unit = 0; unit < static_cast<int>(layout.units.size()); ++unit) {
    pieces_.push_back(InElements(blocks_[unit], layout.units[unit].elements));
    std::vector<UnitSubgroup> whole;
    AppendSubgroups(layout.units[unit], unit, Held(unit, map.optimizer), rule, whole);
    for (const UnitSubgroup& subgroup : whole) {
      if (subgroup_elements > 0 && !subgroup.shape.matrix()) {
        AppendCut(subgroup, subgroup_elements, subgroups_);
      } else {
        subgroups_.push_back(subgroup);
      }
    }
    first_subgroups_.push_back(static_cast<int>(subgroups_.size()));
  }
}

ElementRange ShardPlan::Held(int unit, Level level, int rank) const {
  const PieceRange held = topology_.Pieces(level, rank);
  const int64_t first = pieces_[unit][held.first].first;
  return {first, pieces_[unit][held.end() - 1].end() - first};
}

}  // namespace longhaul

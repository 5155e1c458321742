#include "worker/engine/shard_plan.h"

#include <algorithm>

#include "common/base/check.h"
#include "common/layout/fragment_layout.h"

namespace longhaul {
namespace {

std::vector<ElementRange> CutUnit(int64_t elements, int ranks) {
  std::vector<ElementRange> owners;
  for (int rank = 0; rank < ranks; ++rank) {
    const BlockRange blocks = OwnedBlocks(elements, rank, ranks);
    const int64_t first = std::min(blocks.first * kBlockElements, elements);
    owners.push_back({first, std::min(blocks.end() * kBlockElements, elements) - first});
  }
  return owners;
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

ShardPlan::ShardPlan(const ModelLayout& layout, const PartitionMap& partition, int rank, int ranks)
    : rank_(rank),
      splits_optimizer_(partition.optimizer == PartitionLevel::kPool && ranks > 1),
      splits_gradients_(partition.gradients == PartitionLevel::kPool && ranks > 1) {
  LH_CHECK(splits_optimizer_ || !splits_gradients_, "who updates an element has its gradient");
  for (int unit = 0; unit < static_cast<int>(layout.units.size()); ++unit) {
    const UnitLayout& elements = layout.units[unit];
    owners_.push_back(CutUnit(elements.elements, ranks));
    AppendRuns(elements, unit, splits_optimizer_ ? owned(unit) : ElementRange{0, elements.elements},
               runs_);
  }
}

}  // namespace longhaul

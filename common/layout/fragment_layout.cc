#include "common/layout/fragment_layout.h"

#include <algorithm>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "common/base/check.h"
#include "common/base/checked_math.h"

namespace longhaul {
namespace {

void Append(FragmentLayout& fragment, const ModelLayout& model, int unit) {
  const int64_t offset = CeilDiv(fragment.elements, kBlockElements) * kBlockElements;
  fragment.units.push_back({unit, offset, model.units[unit].elements});
  fragment.elements = offset + model.units[unit].elements;
}

FragmentLayout Make(const ModelLayout& model, const std::vector<int>& units, std::string name) {
  FragmentLayout fragment{.name = std::move(name)};
  for (int unit : units) Append(fragment, model, unit);
  return fragment;
}

FragmentLayout MakeOfBlocks(const ModelLayout& model, const std::vector<int>& units) {
  const auto layer = [&](std::string* out, int unit) {
    absl::StrAppend(out, model.units[unit].layer);
  };
  return Make(model, units, absl::StrCat("layers ", absl::StrJoin(units, ",", layer)));
}

// Puts the largest unit first into the emptiest fragment. The units of a fragment are then in model
// order.
std::vector<std::vector<int>> PackBalanced(const ModelLayout& model, std::vector<int> blocks,
                                           int64_t count) {
  std::stable_sort(blocks.begin(), blocks.end(),
                   [&](int a, int b) { return model.units[a].elements > model.units[b].elements; });
  std::vector<std::vector<int>> bins(count);
  std::vector<int64_t> sizes(count);
  for (int unit : blocks) {
    const int64_t bin = std::min_element(sizes.begin(), sizes.end()) - sizes.begin();
    bins[bin].push_back(unit);
    sizes[bin] += model.units[unit].elements;
  }
  for (auto& bin : bins) std::sort(bin.begin(), bin.end());
  return bins;
}

}  // namespace

absl::StatusOr<std::vector<FragmentLayout>> CutFragments(const ModelLayout& model,
                                                         const FragmentOptions& options) {
  std::vector<FragmentLayout> fragments;
  std::vector<int> edges, blocks;
  for (int i = 0; i < static_cast<int>(model.units.size()); ++i) {
    const UnitLayout& unit = model.units[i];
    if (unit.layer >= 0) {
      blocks.push_back(i);
    } else if (unit.kind == UnitKind::kVector) {
      fragments.push_back(Make(model, {i}, unit.name));
    } else {
      edges.push_back(i);
    }
  }
  if (!edges.empty()) fragments.push_back(Make(model, edges, "embeddings"));
  if (blocks.empty()) return fragments;

  const int64_t layers = blocks.size();
  const bool balanced = options.rule == FragmentRule::kBalanced;
  if (options.count < 1 || options.count > layers) {
    return absl::InvalidArgumentError(
        absl::StrFormat("%s: found %d, expected 1 to %d, the number of layers",
                        balanced ? "balanced" : "layers", options.count, layers));
  }
  if (balanced) {
    for (const auto& bin : PackBalanced(model, blocks, options.count))
      fragments.push_back(MakeOfBlocks(model, bin));
    return fragments;
  }
  const int64_t count = CeilDiv(layers, options.count);
  std::vector<std::vector<int>> groups(count);
  for (int64_t i = 0; i < layers; ++i) {
    groups[options.rule == FragmentRule::kStrided ? i % count : i / options.count].push_back(
        blocks[i]);
  }
  for (const auto& group : groups) fragments.push_back(MakeOfBlocks(model, group));
  return fragments;
}

BlockRange OwnedBlocks(int64_t elements, int piece, int pieces) {
  LH_CHECK(0 <= piece && piece < pieces, "piece out of range");
  const int64_t blocks = CeilDiv(elements, kBlockElements);
  const int64_t share = blocks / pieces, rest = blocks % pieces;
  const int64_t first = piece * share + std::min<int64_t>(piece, rest);
  return {first, share + (piece < rest ? 1 : 0)};
}

std::vector<BlockRange> OwnedBlocks(const FragmentLayout& fragment,
                                    absl::FunctionRef<BlockRange(int unit)> of_unit) {
  std::vector<BlockRange> result;
  for (const UnitSpan& unit : fragment.units) {
    BlockRange owned = of_unit(unit.unit);
    if (owned.count == 0) continue;
    owned.first += unit.offset / kBlockElements;
    if (!result.empty() && result.back().end() == owned.first) {
      result.back().count += owned.count;
    } else {
      result.push_back(owned);
    }
  }
  return result;
}

std::vector<BlockRange> OwnedBlocks(const FragmentLayout& fragment, int piece, int pieces) {
  return OwnedBlocks(fragment, [&](int unit) {
    for (const UnitSpan& span : fragment.units) {
      if (span.unit == unit) return OwnedBlocks(span.elements, piece, pieces);
    }
    return BlockRange{};
  });
}

int64_t BlocksIn(absl::Span<const BlockRange> ranges) {
  int64_t count = 0;
  for (const BlockRange& range : ranges) count += range.count;
  return count;
}

int64_t ElementsOf(const BlockRange& blocks, int64_t elements) {
  // A piece that got no block begins after the last one.
  if (blocks.count == 0) return 0;
  return std::min(blocks.end() * kBlockElements, elements) - blocks.first * kBlockElements;
}

int64_t ElementsOf(const std::vector<BlockRange>& blocks, int64_t elements) {
  return std::accumulate(
      blocks.begin(), blocks.end(), int64_t{0},
      [&](int64_t sum, const BlockRange& b) { return sum + ElementsOf(b, elements); });
}

}  // namespace longhaul

#include "worker/session/fragment_map.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "common/base/status_macros.h"

namespace longhaul::session {

FragmentMap::FragmentMap(FragmentLayout layout, std::vector<BlockRange> owned)
    : layout_(std::move(layout)),
      blocks_(std::move(owned)),
      segments_(CutSegments(blocks_, layout_.elements)),
      elements_(ElementsOf(blocks_, layout_.elements)) {
  int64_t local = 0;
  for (const BlockRange& range : blocks_) {
    const int64_t begin = range.first * kBlockElements;
    const int64_t end = begin + ElementsOf(range, layout_.elements);
    for (const UnitSpan& unit : layout_.units) {
      const int64_t first = std::max(begin, unit.offset);
      const int64_t last = std::min(end, unit.offset + unit.elements);
      if (first < last)
        pieces_.push_back({unit.unit, first - unit.offset, local + first - begin, last - first});
    }
    local += end - begin;
  }
}

std::vector<int> FragmentMap::units() const {
  std::vector<int> units;
  for (const UnitSpan& unit : layout_.units) units.push_back(unit.unit);
  return units;
}

int64_t FragmentMap::LocalOffset(const SegmentRef& segment) const {
  int64_t local = 0;
  for (const BlockRange& range : blocks_) {
    if (segment.first_block >= range.first && segment.first_block < range.end()) {
      return local + (segment.first_block - range.first) * kBlockElements;
    }
    local += ElementsOf(range, layout_.elements);
  }
  LH_CHECK(false, "the segment is not of owned blocks");
}

absl::Status FragmentMap::Read(Replica& replica, absl::Span<float> local) const {
  // The end of the previous piece.
  int64_t end = 0;
  for (const Piece& piece : pieces_) {
    std::fill(local.begin() + end, local.begin() + piece.local_offset, 0.0f);
    LH_RETURN_IF_ERROR(replica.Read(piece.unit, piece.unit_offset,
                                    local.subspan(piece.local_offset, piece.elements)));
    end = piece.local_offset + piece.elements;
  }
  std::fill(local.begin() + end, local.end(), 0.0f);
  return absl::OkStatus();
}

absl::Status FragmentMap::Write(Replica& replica, absl::Span<const float> local) const {
  for (const Piece& piece : pieces_) {
    LH_RETURN_IF_ERROR(replica.Write(piece.unit, piece.unit_offset,
                                     local.subspan(piece.local_offset, piece.elements)));
  }
  return absl::OkStatus();
}

}  // namespace longhaul::session

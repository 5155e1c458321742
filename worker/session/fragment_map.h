// Maps the elements of a fragment that one rank owns to the model's units. A rank keeps its
// elements of a fragment in one local array: its owned blocks one after another, in canonical
// order, including the padding zeros between two units. Immutable value.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "common/blocks/coded_blocks.h"
#include "common/layout/fragment_layout.h"
#include "worker/replica/replica.h"

namespace longhaul::session {

class FragmentMap {
 public:
  // `owned`: the blocks of the fragment that the rank owns (OwnedBlocks).
  FragmentMap(FragmentLayout layout, std::vector<BlockRange> owned);

  const FragmentLayout& layout() const { return layout_; }
  // Owned blocks, ascending. Empty: the fragment has fewer blocks than the pool ranks.
  const std::vector<BlockRange>& blocks() const { return blocks_; }
  // The segments that cover the owned blocks, with exponents 0.
  const std::vector<SegmentRef>& segments() const { return segments_; }
  // Elements of the local array.
  int64_t elements() const { return elements_; }
  std::vector<int> units() const;

  // A run of the local array that lies in one unit. The local array is zero outside of all pieces.
  struct Piece {
    int unit;
    int64_t unit_offset, local_offset, elements;
  };
  const std::vector<Piece>& pieces() const { return pieces_; }

  // Where a segment of owned blocks begins in the local array.
  int64_t LocalOffset(const SegmentRef& segment) const;

  // Copy the replica's live parameters to and from the local array. Read sets the padding between
  // units to zero. Errors: those of the replica.
  absl::Status Read(Replica& replica, absl::Span<float> local) const;
  absl::Status Write(Replica& replica, absl::Span<const float> local) const;

 private:
  const FragmentLayout layout_;
  std::vector<BlockRange> blocks_;
  std::vector<SegmentRef> segments_;
  // Ascending by local_offset.
  std::vector<Piece> pieces_;
  int64_t elements_ = 0;
};

}  // namespace longhaul::session

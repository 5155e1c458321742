// Cuts coded segments at block boundaries without decoding them. A server answers a request for
// some blocks of a tile in this way, though the tile was encoded whole. Pure functions.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "common/codec/codec.h"
#include "common/layout/fragment_layout.h"

namespace longhaul {

// Copies blocks [blocks.first, blocks.end()) of `segment` into `out`, as a payload with the
// segment's base_exponent. `out` has codec.PayloadBytes(ElementsOf(blocks, segment.elements)) bytes
// and must not overlap the segment. INVALID_ARGUMENT: the range is empty or not within the segment,
// or a size is wrong, or the range cuts a group of blocks (Codec::Planes).
absl::Status SliceSegment(const Codec& codec, const SegmentView& segment, const BlockRange& blocks,
                          absl::Span<uint8_t> out);

}  // namespace longhaul

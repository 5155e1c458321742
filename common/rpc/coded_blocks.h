// Coded blocks of a fragment, as they leave a sender (CodedSource: views) and as they arrive
// (CodedBlocks: one buffer). Values without gRPC or protos; the meaning of the bytes belongs to the
// codec.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "common/layout/fragment_layout.h"
#include "common/rpc/aligned_buffer.h"

namespace longhaul {

// A contiguous run of whole blocks within one tile, coded on its own (longhaul.v1.Segment).
struct SegmentRef {
  int64_t first_block = 0;
  int32_t elements = 0;
  int32_t base_exponent = 0;
  friend bool operator==(const SegmentRef&, const SegmentRef&) = default;
};

// Coded bytes of a segment of so many elements; a pure function of the codec. For 1 <= elements <=
// kTileElements the result is at most 4 * kTileElements.
using SegmentBytes = std::function<int64_t(int32_t elements)>;

// What a stream brought, verified: the segments in the order of their blocks, their coded bytes one
// after another.
struct CodedBlocks {
  std::vector<SegmentRef> segments;
  AlignedBuffer payload;
};

// What a stream is to send. gRPC may read the bytes after the call returned (cancelled calls leave
// slices in a socket's queue), so `owner` is shared with the slices in flight: the memory must not
// change or end while anybody holds it.
struct CodedSource {
  std::vector<SegmentRef> segments;
  // Of each segment; neighbours in memory are sent as one slice.
  std::vector<absl::Span<const uint8_t>> payloads;
  std::shared_ptr<const void> owner;
  int64_t payload_bytes() const;
};

// All of `blocks`, whose payload is cut by `segment_bytes`.
CodedSource SourceOf(std::shared_ptr<const CodedBlocks> blocks, const SegmentBytes& segment_bytes);

// The largest segments that cover the ranges: cut at the tiles' and the ranges' ends. Exponents are
// 0. Senders code these.
std::vector<SegmentRef> CutSegments(const std::vector<BlockRange>& blocks,
                                    int64_t fragment_elements);

// The block ranges that segments in ascending order cover, neighbours merged.
std::vector<BlockRange> BlocksOf(absl::Span<const SegmentRef> segments);

// At most `parts` sources of about the same number of bytes, in order, none empty: one for each
// bulk channel.
std::vector<CodedSource> SplitSource(const CodedSource& source, int parts);
// The same for ranges, by blocks.
std::vector<std::vector<BlockRange>> SplitBlocks(const std::vector<BlockRange>& blocks, int parts);

// INVALID_ARGUMENT (BadRequest on blocks[i]) unless the ranges are non-empty, ascending, disjoint
// and within the fragment.
absl::Status CheckBlocks(const std::vector<BlockRange>& blocks, int64_t fragment_elements);

}  // namespace longhaul

// Coded blocks of a fragment: as a sender makes them (CodedBlocks: one buffer), as they are sent
// (CodedSource: views), and as they arrive (CodedChunk: in the network's memory). Values without
// gRPC or protos. Only the codec knows the meaning of the bytes.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "common/blocks/aligned_buffer.h"
#include "common/layout/fragment_layout.h"

namespace longhaul {

// Whole blocks, one after another within one tile, coded on their own (longhaul.v1.Segment).
struct SegmentRef {
  int64_t first_block = 0;
  int32_t elements = 0;
  int32_t base_exponent = 0;
  friend bool operator==(const SegmentRef&, const SegmentRef&) = default;
};

// Coded bytes of a segment with so many elements. A pure function that depends on the codec. For 1
// <= elements <= kTileElements the result is at most 4 * kTileElements.
using SegmentBytes = std::function<int64_t(int32_t elements)>;

// Segments in the order of their blocks, with their coded bytes one after another.
struct CodedBlocks {
  std::vector<SegmentRef> segments;
  AlignedBuffer payload;
};

// What a stream sends. gRPC may read the bytes after the call returned (cancelled calls leave
// slices in a socket's queue). So `owner` is shared with these slices: the memory must neither
// change nor end while anything holds it.
struct CodedSource {
  std::vector<SegmentRef> segments;
  // The payload of each segment. Payloads that are neighbours in memory are sent as one slice.
  std::vector<absl::Span<const uint8_t>> payloads;
  std::shared_ptr<const void> owner;
  int64_t payload_bytes() const;
};

// Consecutive segments that a stream brought. They were verified, and are still in the memory in
// which they came.
struct CodedChunk {
  std::vector<SegmentRef> segments;
  // Their coded bytes, one after another, cut where the network cut them: a segment may lie in two
  // pieces. Together at most kPayloadBytesMax (fragment_stream.h).
  std::vector<absl::Span<const uint8_t>> pieces;
  int64_t payload_bytes = 0;
  // Keeps the pieces alive.
  std::shared_ptr<const void> owner;
};

// Calls `use` with each segment of a chunk, in order, and its coded bytes in one span, which lives
// until that call ends. A segment that lies in two pieces is copied; others are not. Returns the
// first error.
absl::Status ForEachSegment(
    const CodedChunk& chunk, const SegmentBytes& segment_bytes,
    absl::FunctionRef<absl::Status(const SegmentRef&, absl::Span<const uint8_t>)> use);

// A source of all of `blocks`. `segment_bytes` cuts their payload.
CodedSource SourceOf(std::shared_ptr<const CodedBlocks> blocks, const SegmentBytes& segment_bytes);

// The largest segments that cover the ranges. They are cut at the ends of tiles and of ranges.
// Exponents are 0. Senders code these segments.
std::vector<SegmentRef> CutSegments(const std::vector<BlockRange>& blocks,
                                    int64_t fragment_elements);

// The segments of `source` that are not completely in `here` (disjoint, ascending).
CodedSource Missing(const CodedSource& source, const std::vector<BlockRange>& here);
// The blocks of `blocks` that are not in `here` (both disjoint, ascending).
std::vector<BlockRange> Missing(const std::vector<BlockRange>& blocks,
                                const std::vector<BlockRange>& here);

// The blocks of both (each disjoint, ascending), with neighbours merged.
std::vector<BlockRange> Merged(const std::vector<BlockRange>& a, const std::vector<BlockRange>& b);

// The block ranges that segments in ascending order cover, with neighbours merged.
std::vector<BlockRange> BlocksOf(absl::Span<const SegmentRef> segments);

// Splits into at most `parts` sources of about the same number of bytes, in order, none of them
// empty. Each bulk channel sends one.
std::vector<CodedSource> SplitSource(const CodedSource& source, int parts);
// Splits ranges in the same way, by their number of blocks.
std::vector<std::vector<BlockRange>> SplitBlocks(const std::vector<BlockRange>& blocks, int parts);

// INVALID_ARGUMENT unless the ranges are non-empty, ascending, disjoint and within the fragment. It
// names the range as blocks[i].
absl::Status CheckBlocks(absl::Span<const BlockRange> blocks, int64_t fragment_elements);

}  // namespace longhaul

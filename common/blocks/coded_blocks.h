// Coded blocks of a fragment, as a sender makes them (CodedBlocks: one buffer), as they leave it
// (CodedSource: views) and as they arrive (CodedChunk: where the network put them). Values without
// gRPC or protos; the meaning of the bytes belongs to the codec.
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

// Segments in the order of their blocks, their coded bytes one after another.
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

// Consecutive segments that a stream brought, verified, in the memory in which they came.
struct CodedChunk {
  std::vector<SegmentRef> segments;
  // Their coded bytes, one after another, cut where the network cut them: a segment may lie in two
  // pieces. At most kPayloadBytesMax (fragment_stream.h) together.
  std::vector<absl::Span<const uint8_t>> pieces;
  int64_t payload_bytes = 0;
  std::shared_ptr<const void> owner;  // Of the pieces.
};

// Calls `use` with each segment of a chunk, in order, and its coded bytes in one span, which lives
// for the length of that call: in place, or copied where they lie in two pieces. Returns the first
// error.
absl::Status ForEachSegment(
    const CodedChunk& chunk, const SegmentBytes& segment_bytes,
    absl::FunctionRef<absl::Status(const SegmentRef&, absl::Span<const uint8_t>)> use);

// All of `blocks`, whose payload is cut by `segment_bytes`.
CodedSource SourceOf(std::shared_ptr<const CodedBlocks> blocks, const SegmentBytes& segment_bytes);

// The largest segments that cover the ranges: cut at the tiles' and the ranges' ends. Exponents are
// 0. Senders code these.
std::vector<SegmentRef> CutSegments(const std::vector<BlockRange>& blocks,
                                    int64_t fragment_elements);

// The segments of `source` that are not wholly within `here` (disjoint, ascending).
CodedSource Missing(const CodedSource& source, const std::vector<BlockRange>& here);
// The blocks of `blocks` that are not in `here` (both disjoint, ascending).
std::vector<BlockRange> Missing(const std::vector<BlockRange>& blocks,
                                const std::vector<BlockRange>& here);

// The blocks of both (each disjoint, ascending), neighbours merged.
std::vector<BlockRange> Merged(const std::vector<BlockRange>& a, const std::vector<BlockRange>& b);

// The block ranges that segments in ascending order cover, neighbours merged.
std::vector<BlockRange> BlocksOf(absl::Span<const SegmentRef> segments);

// At most `parts` sources of about the same number of bytes, in order, none empty: one for each
// bulk channel.
std::vector<CodedSource> SplitSource(const CodedSource& source, int parts);
// The same for ranges, by blocks.
std::vector<std::vector<BlockRange>> SplitBlocks(const std::vector<BlockRange>& blocks, int parts);

// INVALID_ARGUMENT, naming the range as blocks[i], unless the ranges are non-empty, ascending,
// disjoint and within the fragment.
absl::Status CheckBlocks(absl::Span<const BlockRange> blocks, int64_t fragment_elements);

}  // namespace longhaul

#include "common/codec/segment_slice.h"

#include <cstring>

#include "absl/strings/str_format.h"
#include "common/base/checked_math.h"

namespace longhaul {

absl::Status SliceSegment(const Codec& codec, const SegmentView& segment, const BlockRange& blocks,
                          absl::Span<uint8_t> out) {
  const int64_t total = CeilDiv(segment.elements, kBlockElements);
  if (segment.elements < 1 || segment.elements > kTileElements ||
      static_cast<int64_t>(segment.payload.size()) != codec.PayloadBytes(segment.elements)) {
    return absl::InvalidArgumentError(
        absl::StrFormat("%s: %d bytes are not a segment of %d elements", codec.name(),
                        segment.payload.size(), segment.elements));
  }
  // The comparisons are written so that no sum can overflow.
  if (blocks.first < 0 || blocks.count < 1 || blocks.first >= total ||
      blocks.count > total - blocks.first) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "%d blocks from block %d are not within %d blocks", blocks.count, blocks.first, total));
  }
  const int64_t elements = ElementsOf(blocks, segment.elements);
  if (static_cast<int64_t>(out.size()) != codec.PayloadBytes(elements)) {
    return absl::InvalidArgumentError(absl::StrFormat("%s: %d elements take %d bytes, not %d",
                                                      codec.name(), elements,
                                                      codec.PayloadBytes(elements), out.size()));
  }
  const Codec::Planes& planes = codec.planes();
  const int64_t group = planes.blocks_per_group;
  if (blocks.first % group != 0 || (blocks.end() % group != 0 && blocks.end() != total)) {
    return absl::InvalidArgumentError(
        absl::StrFormat("%s: %d blocks from block %d cut a group of %d", codec.name(), blocks.count,
                        blocks.first, group));
  }
  const int64_t first = blocks.first / group;
  const int64_t scale_bytes = CeilDiv(blocks.count, group) * planes.scale_bytes_per_group;
  const int64_t code_bytes = static_cast<int64_t>(out.size()) - scale_bytes;
  const uint8_t* codes = segment.payload.data();
  const uint8_t* scales =
      codes + segment.payload.size() - CeilDiv(total, group) * planes.scale_bytes_per_group;
  std::memcpy(out.data(), codes + first * planes.code_bytes_per_group, code_bytes);
  std::memcpy(out.data() + code_bytes, scales + first * planes.scale_bytes_per_group, scale_bytes);
  return absl::OkStatus();
}

}  // namespace longhaul

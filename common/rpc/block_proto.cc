#include "common/rpc/block_proto.h"

#include <string>

#include "common/rpc/status_details.h"

namespace longhaul {

absl::Status CheckBlocksField(const std::vector<BlockRange>& blocks, int64_t fragment_elements) {
  const absl::Status checked = CheckBlocks(blocks, fragment_elements);
  if (checked.ok()) return checked;
  return BadRequestError({{"blocks", std::string(checked.message())}});
}

std::vector<BlockRange> BlocksFromProto(const BlockRangesProto& ranges) {
  std::vector<BlockRange> blocks;
  blocks.reserve(ranges.size());
  for (const v1::BlockRange& range : ranges) blocks.push_back({range.first(), range.count()});
  return blocks;
}

BlockRangesProto BlocksToProto(const std::vector<BlockRange>& blocks) {
  BlockRangesProto ranges;
  for (const BlockRange& range : blocks) {
    v1::BlockRange* added = ranges.Add();
    added->set_first(range.first);
    added->set_count(range.count);
  }
  return ranges;
}

SegmentRef SegmentFromProto(const v1::Segment& segment) {
  return {segment.first_block(), segment.elements(), segment.base_exponent()};
}

void SegmentToProto(const SegmentRef& segment, v1::Segment* proto) {
  proto->set_first_block(segment.first_block);
  proto->set_elements(segment.elements);
  proto->set_base_exponent(segment.base_exponent);
}

}  // namespace longhaul

// Converts block ranges and segments between protos and values. The conversions check nothing: see
// CheckBlocksField and ChunkVerifier.
#pragma once

#include <vector>

#include "common/blocks/coded_blocks.h"
#include "longhaul/v1/sync.pb.h"

namespace longhaul {

using BlockRangesProto = google::protobuf::RepeatedPtrField<v1::BlockRange>;

// As CheckBlocks, but the error is a BadRequest on `blocks`.
absl::Status CheckBlocksField(const std::vector<BlockRange>& blocks, int64_t fragment_elements);

std::vector<BlockRange> BlocksFromProto(const BlockRangesProto& ranges);
BlockRangesProto BlocksToProto(const std::vector<BlockRange>& blocks);

SegmentRef SegmentFromProto(const v1::Segment& segment);
void SegmentToProto(const SegmentRef& segment, v1::Segment* proto);

}  // namespace longhaul

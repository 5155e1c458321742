// Block ranges and segments between protos and values. Nothing is checked here (CheckBlocks,
// ChunkVerifier).
#pragma once

#include <vector>

#include "common/rpc/coded_blocks.h"
#include "longhaul/v1/sync.pb.h"

namespace longhaul {

using BlockRangesProto = google::protobuf::RepeatedPtrField<v1::BlockRange>;

std::vector<BlockRange> BlocksFromProto(const BlockRangesProto& ranges);
BlockRangesProto BlocksToProto(const std::vector<BlockRange>& blocks);

SegmentRef SegmentFromProto(const v1::Segment& segment);
void SegmentToProto(const SegmentRef& segment, v1::Segment* proto);

}  // namespace longhaul

#include "common/rpc/block_proto.h"

#include "gtest/gtest.h"

namespace longhaul {
namespace {

TEST(BlockProtoTest, RangesSurviveARoundTrip) {
  const std::vector<BlockRange> blocks = {{0, 3}, {7, 1}};
  EXPECT_EQ(BlocksFromProto(BlocksToProto(blocks)), blocks);
  EXPECT_TRUE(BlocksFromProto({}).empty());
}

TEST(BlockProtoTest, SegmentsSurviveARoundTrip) {
  const SegmentRef segment{.first_block = 5, .elements = 300, .base_exponent = -7};
  v1::Segment proto;
  SegmentToProto(segment, &proto);
  EXPECT_EQ(SegmentFromProto(proto), segment);
}

}  // namespace
}  // namespace longhaul

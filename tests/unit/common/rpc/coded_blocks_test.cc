#include "common/rpc/coded_blocks.h"

#include <memory>

#include "common/rpc/status_details.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace longhaul {
namespace {

using ::testing::ElementsAre;

CodedBlocks Coded(const std::vector<SegmentRef>& segments) {
  int64_t bytes = 0;
  for (const SegmentRef& segment : segments) bytes += segment.elements;
  return {segments, AlignedBuffer(bytes)};
}
const SegmentBytes kByteEach = [](int32_t elements) { return int64_t{elements}; };

TEST(CutSegmentsTest, CutsAtTilesAndRanges) {
  // Blocks 500..520 cross a tile's end at 512; block 1023 is the last of the fragment, with 5
  // elements.
  EXPECT_THAT(
      CutSegments({{500, 20}, {1023, 1}}, 1023 * 128 + 5),
      ElementsAre(SegmentRef{500, 12 * 128}, SegmentRef{512, 8 * 128}, SegmentRef{1023, 5}));
}

TEST(BlocksOfTest, InvertsCutSegments) {
  const std::vector<BlockRange> blocks = {{3, 2000}, {5000, 1}, {5002, 700}};
  EXPECT_EQ(BlocksOf(CutSegments(blocks, 1 << 30)), blocks);
}

TEST(SourceOfTest, CutsThePayload) {
  auto coded = std::make_shared<CodedBlocks>(Coded({{0, 256}, {2, 5}}));
  const uint8_t* data = coded->payload.data();
  const CodedSource source = SourceOf(coded, kByteEach);
  EXPECT_EQ(source.payload_bytes(), 261);
  ASSERT_EQ(source.payloads.size(), 2);
  EXPECT_EQ(source.payloads[0].data(), data);
  EXPECT_EQ(source.payloads[1].data(), data + 256);
  EXPECT_EQ(source.payloads[1].size(), 5);
}

TEST(SourceOfTest, KeepsItsOwnerAlive) {
  auto coded = std::make_shared<CodedBlocks>(Coded({{0, 128}}));
  const std::weak_ptr<CodedBlocks> watch = coded;
  {
    const CodedSource source = SourceOf(std::move(coded), kByteEach);
    EXPECT_FALSE(watch.expired());
  }
  EXPECT_TRUE(watch.expired());
}

TEST(SplitSourceTest, GivesEveryPartAboutTheSame) {
  const auto coded =
      std::make_shared<CodedBlocks>(Coded(CutSegments({{0, 10 * kTileBlocks}}, 1 << 30)));
  const std::vector<CodedSource> parts = SplitSource(SourceOf(coded, kByteEach), 3);
  ASSERT_EQ(parts.size(), 3);
  EXPECT_EQ(parts[0].segments.size(), 4);
  EXPECT_EQ(parts[1].segments.size(), 3);
  EXPECT_EQ(parts[2].segments.size(), 3);
  EXPECT_EQ(parts[1].segments[0].first_block, 4 * kTileBlocks);
  EXPECT_EQ(parts[1].owner, coded);
}

TEST(SplitSourceTest, GivesFewerPartsThanAskedWhenThereIsLittle) {
  const auto coded = std::make_shared<CodedBlocks>(Coded({{0, 128}, {600, 128}}));
  EXPECT_EQ(SplitSource(SourceOf(coded, kByteEach), 8).size(), 2);
}

TEST(SplitBlocksTest, CutsBetweenTiles) {
  EXPECT_THAT(SplitBlocks({{100, 2 * kTileBlocks}}, 2),
              ElementsAre(ElementsAre(BlockRange{100, 924}), ElementsAre(BlockRange{1024, 100})));
  EXPECT_THAT(SplitBlocks({{7, 3}}, 4), ElementsAre(ElementsAre(BlockRange{7, 3})));
}

TEST(CheckBlocksTest, AcceptsAscendingRangesWithin) {
  EXPECT_TRUE(CheckBlocks({{0, 1}}, 1).ok());
  EXPECT_TRUE(CheckBlocks({{0, 3}, {3, 1}, {9, 1}}, 10 * 128).ok());
}

TEST(CheckBlocksTest, RefusesAndNamesTheRange) {
  const auto field = [](const std::vector<BlockRange>& blocks) {
    const absl::Status status = CheckBlocks(blocks, 10 * 128);
    EXPECT_TRUE(absl::IsInvalidArgument(status));
    const auto violations = FieldViolationsOf(status);
    return violations.empty() ? "" : violations[0].field;
  };
  EXPECT_EQ(field({}), "blocks");
  EXPECT_EQ(field({{0, 0}}), "blocks[0]");
  EXPECT_EQ(field({{-1, 2}}), "blocks[0]");
  EXPECT_EQ(field({{0, 11}}), "blocks[0]");
  EXPECT_EQ(field({{0, 2}, {1, 2}}), "blocks[1]");
  EXPECT_EQ(field({{4, 2}, {0, 2}}), "blocks[1]");
  EXPECT_EQ(field({{1, INT64_MAX}}), "blocks[0]");
}

}  // namespace
}  // namespace longhaul

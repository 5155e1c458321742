#include "common/blocks/coded_blocks.h"

#include <memory>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace longhaul {
namespace {

using ::testing::ElementsAre;
using Ranges = std::vector<BlockRange>;

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

TEST(MissingTest, TakesBlocksAway) {
  using Blocks = std::vector<BlockRange>;
  EXPECT_EQ(Missing(Blocks{{0, 10}}, {}), (Blocks{{0, 10}}));
  EXPECT_EQ(Missing(Blocks{{0, 10}}, {{0, 10}}), Blocks());
  EXPECT_EQ(Missing(Blocks{{0, 10}, {20, 5}}, {{3, 2}, {8, 14}}),
            (Blocks{{0, 3}, {5, 3}, {22, 3}}));
  EXPECT_EQ(Missing(Blocks{{4, 2}, {6, 2}}, {{0, 3}, {100, 1}}), (Blocks{{4, 2}, {6, 2}}));
}

TEST(MissingTest, KeepsSegmentsThatAreNotWhollyThere) {
  const auto coded = std::make_shared<CodedBlocks>(Coded({{0, 256}, {2, 256}, {4, 128}}));
  const CodedSource source = SourceOf(coded, kByteEach);
  const CodedSource missing = Missing(source, {{0, 3}});
  ASSERT_EQ(missing.segments.size(), 2);
  EXPECT_EQ(missing.segments[0], source.segments[1]);
  EXPECT_EQ(missing.payloads[1].data(), source.payloads[2].data());
  EXPECT_EQ(missing.owner, coded);
}

TEST(MergedTest, JoinsNeighbours) {
  using Blocks = std::vector<BlockRange>;
  EXPECT_EQ(Merged({{0, 2}, {8, 1}}, {{2, 3}}), (Blocks{{0, 5}, {8, 1}}));
  EXPECT_EQ(Merged({{0, 2}, {5, 3}}, {{1, 5}}), (Blocks{{0, 8}}));
  EXPECT_EQ(Merged({}, {{1, 1}}), (Blocks{{1, 1}}));
}

TEST(ForEachSegmentTest, CopiesOnlyWhatStraddlesPieces) {
  const auto bytes = std::make_shared<std::vector<uint8_t>>(600);
  for (size_t i = 0; i < bytes->size(); ++i) (*bytes)[i] = static_cast<uint8_t>(i);
  const absl::Span<const uint8_t> all = *bytes;
  const CodedChunk chunk{
      .segments = {{0, 100}, {1, 100}, {2, 300}, {5, 100}},
      .pieces = {all.first(100), all.subspan(100, 150), all.subspan(250, 7), all.subspan(257)},
      .payload_bytes = 600,
      .owner = bytes};
  std::vector<uint8_t> seen;
  std::vector<bool> in_place;
  const absl::Status status =
      ForEachSegment(chunk, kByteEach, [&](const SegmentRef& segment, auto payload) {
        EXPECT_EQ(payload.size(), segment.elements);
        in_place.push_back(payload.data() == all.data() + seen.size());
        seen.insert(seen.end(), payload.begin(), payload.end());
        return absl::OkStatus();
      });
  EXPECT_TRUE(status.ok());
  EXPECT_EQ(seen, *bytes);
  EXPECT_THAT(in_place, ElementsAre(true, true, false, true));
}

TEST(ForEachSegmentTest, EndsWithTheFirstError) {
  const std::vector<uint8_t> bytes(20);
  const CodedChunk chunk{.segments = {{0, 10}, {1, 10}}, .pieces = {bytes}};
  int calls = 0;
  const absl::Status status = ForEachSegment(chunk, kByteEach, [&](const SegmentRef&, auto) {
    ++calls;
    return absl::DataLossError("no");
  });
  EXPECT_EQ(status, absl::DataLossError("no"));
  EXPECT_EQ(calls, 1);
}

TEST(CheckBlocksTest, AcceptsAscendingRangesWithin) {
  EXPECT_TRUE(CheckBlocks(Ranges{{0, 1}}, 1).ok());
  EXPECT_TRUE(CheckBlocks(Ranges{{0, 3}, {3, 1}, {9, 1}}, 10 * 128).ok());
}

TEST(CheckBlocksTest, RefusesAndNamesTheRange) {
  const auto field = [](const std::vector<BlockRange>& blocks) -> std::string {
    const absl::Status status = CheckBlocks(blocks, 10 * 128);
    EXPECT_TRUE(absl::IsInvalidArgument(status));
    return std::string(status.message().substr(0, status.message().find(':')));
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

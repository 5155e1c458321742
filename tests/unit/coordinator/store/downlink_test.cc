#include "coordinator/store/downlink.h"

#include <memory>
#include <optional>
#include <vector>

#include "gtest/gtest.h"
#include "tests/testing/memory_filesystem.h"
#include "tests/unit/coordinator/store/store_testing.h"

namespace longhaul {
namespace {

// Three frames, the last one short.
constexpr int64_t kDownlinkElements = 9 * kTileElements + 200;

class DownlinkTest : public testing::Test {
 protected:
  // Writes `values`, coded exactly. Returns the index.
  DownlinkIndex Write(const std::vector<float>& values) {
    auto reservation = *log_.Reserve(DownlinkWriter::BytesMax(*codec_, values.size()));
    DownlinkWriter writer(&log_, &reservation, codec_.get(), {2, 5});
    const CodedPart all = Code({}, values);
    absl::Span<const uint8_t> payload = all.payload;
    for (const SegmentRef& segment : all.info.segments) {
      const size_t bytes = codec_->PayloadBytes(segment.elements);
      EXPECT_TRUE(writer.Add(segment, payload.first(bytes)).ok());
      payload.remove_prefix(bytes);
    }
    EXPECT_TRUE(writer.Finish().ok());
    EXPECT_EQ(writer.first_sequence(), 1u);
    return writer.TakeIndex();
  }

  // Reads some choices of blocks, and expects their values.
  void ExpectAnyRanges(bool from_memory);

  MemoryFileSystem fs_;
  Log log_{&fs_, "", {.file_bytes = 1 << 20, .salt = 1}, LogStart()};
  const std::unique_ptr<Codec> codec_ = *MakeCodec({.kind = CodecKind::kFp32});
};

void DownlinkTest::ExpectAnyRanges(bool from_memory) {
  const std::vector<float> values = NoiseOf(kDownlinkElements, 1);
  const DownlinkIndex index = Write(values);
  EXPECT_EQ(index.elements(), kDownlinkElements);
  std::optional<DownlinkBytes> all;
  if (from_memory) {
    all.emplace(codec_->FragmentBytes(kDownlinkElements));
    const std::vector<uint8_t> payload = Code({}, values).payload;
    ASSERT_EQ(all->span().size(), payload.size());
    std::copy(payload.begin(), payload.end(), all->span().begin());
  }
  const int64_t blocks = 9 * kTileBlocks + 2;
  for (const std::vector<BlockRange>& ranges : {std::vector<BlockRange>{{0, blocks}},
                                                {{0, 1}},
                                                {{511, 2}},
                                                {{512, 512}, {2000, 1500}},
                                                {{blocks - 1, 1}},
                                                {}}) {
    const auto read = index.Read(log_, from_memory ? &*all : nullptr, ranges);
    ASSERT_TRUE(read.ok()) << read.status();
    std::vector<float> expected, decoded;
    for (const BlockRange& range : ranges) {
      const auto begin = values.begin() + range.first * kBlockElements;
      expected.insert(expected.end(), begin, begin + ElementsOf(range, kDownlinkElements));
    }
    absl::Span<const uint8_t> rest = read->payload.span();
    for (const SegmentRef& segment : read->segments) {
      const auto payload = rest.subspan(0, codec_->PayloadBytes(segment.elements));
      rest.remove_prefix(payload.size());
      const size_t size = decoded.size();
      decoded.resize(size + segment.elements);
      ASSERT_TRUE(codec_
                      ->Decode({segment.elements, segment.base_exponent, payload},
                               absl::MakeSpan(decoded).subspan(size))
                      .ok());
    }
    EXPECT_TRUE(rest.empty());
    EXPECT_EQ(decoded, expected);
  }
}

TEST_F(DownlinkTest, ReadsAnyRangesFromTheLog) { ExpectAnyRanges(false); }

TEST_F(DownlinkTest, ReadsAnyRangesFromMemory) { ExpectAnyRanges(true); }

TEST_F(DownlinkTest, TheIndexTakesTilesInOrderOnly) {
  DownlinkIndex index(CodecKind::kFp32);
  EXPECT_FALSE(index.Add(*codec_, {{512, 100, 0}}, {}));
  EXPECT_TRUE(index.Add(*codec_, {{0, 65536, 0}, {512, 100, 0}}, {}));
  // After a short tile.
  EXPECT_FALSE(index.Add(*codec_, {{1024, 100, 0}}, {}));
  EXPECT_FALSE(DownlinkIndex().Add(*codec_, {{0, 65537, 0}}, {}));
  EXPECT_FALSE(DownlinkIndex().Add(*codec_, {{0, 0, 0}}, {}));
}

}  // namespace
}  // namespace longhaul

#include "coordinator/store/shard_check.h"

#include <limits>

#include "gtest/gtest.h"
#include "tests/unit/coordinator/store/store_testing.h"

namespace longhaul {
namespace {

constexpr int64_t kElements = kTileElements + 1000;

CodedShard Good(CodecKind codec = CodecKind::kFp32) {
  const ShardInfo info = {0, 1, RoundKind::kOuter, "p", codec, {}};
  return Code(info, NoiseOf(kElements - 256, 1), 2);
}
absl::Status Check(const CodedShard& shard) {
  return CheckShard(shard.info, shard.payload.size(), kElements);
}
// Every segment's bytes.
absl::Status CheckBytes(const CodedShard& shard) {
  const std::unique_ptr<Codec> codec = *MakeCodec({.kind = shard.info.codec});
  SegmentChecker checker(codec.get());
  absl::Span<const uint8_t> rest = shard.payload;
  for (const SegmentRef& segment : shard.info.segments) {
    const auto payload = rest.first(codec->PayloadBytes(segment.elements));
    rest.remove_prefix(payload.size());
    LH_RETURN_IF_ERROR(checker.Check(segment, payload));
  }
  return absl::OkStatus();
}

TEST(ShardCheckTest, AcceptsWhatIsWhole) {
  for (const CodecKind codec : {CodecKind::kFp32, CodecKind::kBf16, CodecKind::kE3m0}) {
    EXPECT_TRUE(Check(Good(codec)).ok()) << Check(Good(codec));
    EXPECT_TRUE(CheckBytes(Good(codec)).ok()) << CheckBytes(Good(codec));
  }
}

TEST(ShardCheckTest, RefusesMisplacedSegments) {
  for (const auto& spoil : std::vector<void (*)(std::vector<SegmentRef>&)>{
           [](auto& s) { s.clear(); }, [](auto& s) { s[0].elements = 0; },
           [](auto& s) { s[0].elements = -128; }, [](auto& s) { s[0].elements = 65537; },
           [](auto& s) { s[0].first_block = -1; }, [](auto& s) { std::swap(s[0], s[1]); },
           [](auto& s) { s[1].first_block = 511; },
           [](auto& s) { s[1].first_block = std::numeric_limits<int64_t>::max(); },
           [](auto& s) { s[0].first_block = 3; },   // across a tile
           [](auto& s) { s[0].elements -= 1; },     // a cut block inside
           [](auto& s) { s[1].first_block += 1; },  // past the end
           [](auto& s) { s.pop_back(); },           // payload left over
       }) {
    CodedShard shard = Good();
    spoil(shard.info.segments);
    EXPECT_TRUE(absl::IsInvalidArgument(Check(shard)));
  }
}

TEST(ShardCheckTest, RefusesPayloadsOfAnotherSize) {
  CodedShard shard = Good();
  shard.payload.push_back(0);
  EXPECT_TRUE(absl::IsInvalidArgument(Check(shard)));
  shard.payload.resize(shard.payload.size() - 2);
  EXPECT_TRUE(absl::IsInvalidArgument(Check(shard)));
  shard.payload.clear();
  EXPECT_TRUE(absl::IsInvalidArgument(Check(shard)));
}

TEST(ShardCheckTest, RefusesWhatCouldOverflow) {
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(),
                          std::numeric_limits<float>::infinity(), 1e20f, -1e20f}) {
    CodedShard shard = Good();
    std::memcpy(shard.payload.data() + 4 * 700, &bad, sizeof(bad));
    EXPECT_TRUE(absl::IsInvalidArgument(CheckBytes(shard))) << bad;
  }
  // 2^64 itself is allowed, also where the scale alone would allow more.
  for (const CodecKind codec : {CodecKind::kE3m0, CodecKind::kInt8, CodecKind::kTopk2}) {
    const ShardInfo info = {0, 1, RoundKind::kOuter, "p", codec, {}};
    EXPECT_TRUE(CheckBytes(Code(info, std::vector<float>(256, 0x1p63f))).ok());
    EXPECT_TRUE(CheckBytes(Code(info, std::vector<float>(256, 0x1p64f))).ok());
    EXPECT_TRUE(absl::IsInvalidArgument(CheckBytes(Code(info, std::vector<float>(256, 0x1p66f)))));
  }
}

}  // namespace
}  // namespace longhaul

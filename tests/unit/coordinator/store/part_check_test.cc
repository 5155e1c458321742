#include "coordinator/store/part_check.h"

#include <limits>

#include "gtest/gtest.h"
#include "tests/unit/coordinator/store/store_testing.h"

namespace longhaul {
namespace {

constexpr int64_t kPartElements = kTileElements + 1000;

CodedPart Good(CodecKind codec = CodecKind::kFp32) {
  const PartInfo info = {{0, 1, RoundKind::kOuter}, "p", codec, {}};
  return Code(info, NoiseOf(kPartElements - 256, 1), 2);
}
absl::Status Check(const CodedPart& coded) {
  return CheckPart(coded.info, coded.payload.size(), kPartElements);
}
// Checks the bytes of every segment.
absl::Status CheckBytes(const CodedPart& coded) {
  const std::unique_ptr<Codec> codec = *MakeCodec({.kind = coded.info.codec});
  SegmentChecker checker(codec.get());
  absl::Span<const uint8_t> rest = coded.payload;
  for (const SegmentRef& segment : coded.info.segments) {
    const auto payload = rest.first(codec->PayloadBytes(segment.elements));
    rest.remove_prefix(payload.size());
    LH_RETURN_IF_ERROR(checker.Check(segment, payload));
  }
  return absl::OkStatus();
}

TEST(PartCheckTest, AcceptsCompleteParts) {
  for (const CodecKind codec : {CodecKind::kFp32, CodecKind::kBf16, CodecKind::kE3m0}) {
    EXPECT_TRUE(Check(Good(codec)).ok()) << Check(Good(codec));
    EXPECT_TRUE(CheckBytes(Good(codec)).ok()) << CheckBytes(Good(codec));
  }
}

TEST(PartCheckTest, RefusesMisplacedSegments) {
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
    CodedPart coded = Good();
    spoil(coded.info.segments);
    EXPECT_TRUE(absl::IsInvalidArgument(Check(coded)));
  }
}

TEST(PartCheckTest, RefusesPayloadsOfAnotherSize) {
  CodedPart coded = Good();
  coded.payload.push_back(0);
  EXPECT_TRUE(absl::IsInvalidArgument(Check(coded)));
  coded.payload.resize(coded.payload.size() - 2);
  EXPECT_TRUE(absl::IsInvalidArgument(Check(coded)));
  coded.payload.clear();
  EXPECT_TRUE(absl::IsInvalidArgument(Check(coded)));
}

TEST(PartCheckTest, RefusesMagnitudesThatCouldOverflow) {
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(),
                          std::numeric_limits<float>::infinity(), 1e20f, -1e20f}) {
    CodedPart coded = Good();
    std::memcpy(coded.payload.data() + 4 * 700, &bad, sizeof(bad));
    EXPECT_TRUE(absl::IsInvalidArgument(CheckBytes(coded))) << bad;
  }
  // 2^64 itself is allowed, even if the scale alone would allow more.
  for (const CodecKind codec : {CodecKind::kE3m0, CodecKind::kInt8, CodecKind::kTopk2}) {
    const PartInfo info = {{0, 1, RoundKind::kOuter}, "p", codec, {}};
    EXPECT_TRUE(CheckBytes(Code(info, std::vector<float>(256, 0x1p63f))).ok());
    EXPECT_TRUE(CheckBytes(Code(info, std::vector<float>(256, 0x1p64f))).ok());
    EXPECT_TRUE(absl::IsInvalidArgument(CheckBytes(Code(info, std::vector<float>(256, 0x1p66f)))));
  }
}

}  // namespace
}  // namespace longhaul

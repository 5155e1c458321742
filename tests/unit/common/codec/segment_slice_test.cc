#include "common/codec/segment_slice.h"

#include <gtest/gtest.h>

#include <limits>
#include <numeric>
#include <vector>

namespace longhaul {
namespace {

constexpr int64_t kSegmentElements = 2 * kBlockElements + 6;  // Codes 64 + 64 + 3, scales 3.

class SegmentSliceTest : public testing::Test {
 protected:
  SegmentSliceTest() { std::iota(payload_.begin(), payload_.end(), uint8_t{0}); }

  absl::Status Slice(const BlockRange& blocks, std::vector<uint8_t>& out) {
    return SliceSegment(*codec_, {kSegmentElements, 0, payload_}, blocks, absl::MakeSpan(out));
  }

  const std::unique_ptr<Codec> codec_ = MakeCodec({.kind = CodecKind::kE3m0}).value();
  std::vector<uint8_t> payload_ = std::vector<uint8_t>(134);
};

TEST_F(SegmentSliceTest, TakesCodesAndScalesOfItsBlocks) {
  std::vector<uint8_t> out(65 + 4);
  ASSERT_TRUE(Slice({1, 2}, out).ok());
  for (int i = 0; i < 67; ++i) EXPECT_EQ(out[i], 64 + i);
  EXPECT_EQ(out[67], 132);
  EXPECT_EQ(out[68], 133);
}

TEST_F(SegmentSliceTest, RefusesRangesOutsideTheSegment) {
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  std::vector<uint8_t> out(65);
  for (const BlockRange& blocks :
       {BlockRange{-1, 1}, BlockRange{0, 0}, BlockRange{0, 4}, BlockRange{3, 1}, BlockRange{2, 2},
        BlockRange{1, kMax}, BlockRange{kMax, kMax}, BlockRange{0, -1}}) {
    EXPECT_EQ(Slice(blocks, out).code(), absl::StatusCode::kInvalidArgument)
        << blocks.first << "+" << blocks.count;
  }
}

TEST_F(SegmentSliceTest, RefusesToCutAGroupOfBlocks) {
  const auto topk2 = MakeCodec({.kind = CodecKind::kTopk2}).value();
  const std::vector<uint8_t> payload(topk2->PayloadBytes(80 * kBlockElements));
  std::vector<uint8_t> out(topk2->PayloadBytes(32 * kBlockElements));
  const SegmentView segment = {80 * kBlockElements, 0, payload};
  EXPECT_TRUE(SliceSegment(*topk2, segment, {32, 32}, absl::MakeSpan(out)).ok());
  EXPECT_EQ(SliceSegment(*topk2, segment, {31, 32}, absl::MakeSpan(out)).code(),
            absl::StatusCode::kInvalidArgument);
  out.resize(topk2->PayloadBytes(16 * kBlockElements));
  EXPECT_TRUE(SliceSegment(*topk2, segment, {64, 16}, absl::MakeSpan(out)).ok());
}

TEST_F(SegmentSliceTest, RefusesWrongSizes) {
  std::vector<uint8_t> out(64);
  EXPECT_EQ(Slice({0, 1}, out).code(), absl::StatusCode::kInvalidArgument);
  out.resize(65);
  EXPECT_TRUE(Slice({0, 1}, out).ok());
  payload_.pop_back();
  EXPECT_EQ(Slice({0, 1}, out).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(SliceSegment(*codec_, {-5, 0, payload_}, {0, 1}, absl::MakeSpan(out)).code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace longhaul

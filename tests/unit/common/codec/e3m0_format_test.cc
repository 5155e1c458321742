#include "common/codec/e3m0_format.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <vector>

#include "common/codec/codec.h"
#include "common/codec/tail_order.h"
#include "common/layout/fragment_layout.h"

namespace longhaul {
namespace {

double ScaleOf(int32_t index) { return std::bit_cast<float>(index << e3m0::kScaleShift); }

// One block through the codec, with `largest` as first element so that the scale is known.
struct OneBlock {
  int32_t base_exponent;
  std::vector<uint8_t> payload;
  std::vector<float> decoded;

  explicit OneBlock(std::vector<float> in) : payload(65), decoded(kBlockElements) {
    in.resize(kBlockElements);
    const auto codec = MakeCodec({.kind = CodecKind::kE3m0}).value();
    base_exponent = codec->Encode({in}, {}, absl::MakeSpan(payload)).value().base_exponent;
    EXPECT_TRUE(
        codec->Decode({kBlockElements, base_exponent, payload}, absl::MakeSpan(decoded)).ok());
  }
};

TEST(E3m0FormatTest, ScaleIsTheNearestOfThreeMantissaBits) {
  for (int32_t index = e3m0::kScaleIndexMin; index < e3m0::kScaleIndexMax; ++index) {
    const float scale = ScaleOf(index), next = ScaleOf(index + 1);
    const float middle = scale + (next - scale) / 2;
    EXPECT_EQ(e3m0::NearestScale(std::bit_cast<uint32_t>(scale)), index);
    EXPECT_EQ(e3m0::NearestScale(std::bit_cast<uint32_t>(std::nextafter(middle, 0.0f))), index);
    EXPECT_EQ(e3m0::NearestScale(std::bit_cast<uint32_t>(middle)), index + 1);
  }
}

TEST(E3m0FormatTest, ScaleRangeEndsAtZeroBlocksAndAtTheLargestFloat) {
  EXPECT_EQ(e3m0::NearestScale(0), 0);
  EXPECT_EQ(e3m0::NearestScale(std::bit_cast<uint32_t>(std::nextafter(0x1p-119f, 0.0f))), 0);
  EXPECT_EQ(e3m0::NearestScale(std::bit_cast<uint32_t>(0x1p-119f)), e3m0::kScaleIndexMin);
  EXPECT_EQ(e3m0::NearestScale(0x7f7fffff), e3m0::kScaleIndexMax);
  EXPECT_EQ(ScaleOf(e3m0::kScaleIndexMax), 1.875 * 0x1p127);
}

TEST(E3m0FormatTest, ScaleByteSpansThirtyTwoExponents) {
  for (int32_t base : {e3m0::kBaseExponentMin, -1, 0, 5, e3m0::kBaseExponentMax}) {
    const int32_t largest = e3m0::ScaleOrigin(base) + 255;
    EXPECT_EQ(e3m0::ScaleExponent(largest), base);
    EXPECT_EQ(e3m0::ScaleExponent(largest + 1), base + 1);
    EXPECT_EQ(e3m0::ScaleExponent(largest - 255), base - 31);
  }
  EXPECT_EQ(e3m0::ScaleOrigin(e3m0::kBaseExponentMax) + 255, e3m0::kScaleIndexMax);
}

// Brute force in double: no level is nearer. Tested for magnitudes around every threshold.
TEST(E3m0FormatTest, EveryElementGoesToTheNearestLevelTiesAway) {
  for (float largest :
       {1.0f, 1.06f, 1.4375f, 1.97f, 3e-20f, 0x1p-119f, 1.9e-36f, 2.9e38f, 3.4e38f}) {
    const double scale = ScaleOf(e3m0::NearestScale(std::bit_cast<uint32_t>(largest)));
    std::vector<double> levels = {0};
    for (int level = 1; level <= 7; ++level) levels.push_back(std::ldexp(scale, level - 7));
    std::vector<float> in = {largest};
    for (int level = 0; level < 7; ++level) {
      const float tie = static_cast<float>((levels[level] + levels[level + 1]) / 2);
      for (float x : {std::nextafter(tie, 0.0f), tie, std::nextafter(tie, 2 * tie)}) {
        if (x > largest) continue;
        in.push_back(x);
        in.push_back(-x);
      }
      in.push_back(static_cast<float>(levels[level]));
    }
    const OneBlock block(in);
    for (size_t i = 0; i < in.size(); ++i) {
      double nearest = 0;
      for (double level : levels) {
        if (std::abs(std::abs(in[i]) - level) <= std::abs(std::abs(in[i]) - nearest))
          nearest = level;
      }
      EXPECT_EQ(block.decoded[i], std::copysign(nearest, in[i])) << in[i] << " of " << largest;
    }
  }
}

TEST(E3m0FormatTest, BytesOfAWholeBlock) {
  std::vector<float> in(kBlockElements);
  in[0] = 1.0f;        // Level 7, word 0, bits 0.
  in[1] = -0.5f;       // Level 6 and sign, word 1, bits 0.
  in[16] = 0.015625f;  // Level 1, word 0, bits 4.
  in[127] = -1.0f;     // Level 7 and sign, word 15, bits 28.
  const OneBlock block(in);
  EXPECT_EQ(block.base_exponent, 0);
  std::vector<uint8_t> expected(65);
  expected[0] = 0x17;
  expected[4] = 0x0e;
  expected[63] = 0xf0;
  expected[64] = 31 << 3;
  EXPECT_EQ(block.payload, expected);
}

TEST(E3m0FormatTest, BytesOfAShortBlockAreInNaturalOrder) {
  const std::vector<float> in = {1.0f, -0.5f, 0.25f};
  const auto codec = MakeCodec({.kind = CodecKind::kE3m0}).value();
  std::vector<uint8_t> payload(3);
  ASSERT_EQ(codec->Encode({in}, {}, absl::MakeSpan(payload)).value().base_exponent, 0);
  EXPECT_EQ(payload, (std::vector<uint8_t>{0xe7, 0x05, 31 << 3}));
  payload[1] |= 0x10;
  EXPECT_EQ(codec->Validate({3, 0, payload}).code(), absl::StatusCode::kInvalidArgument);
}

TEST(E3m0FormatTest, TailCodesSurviveTheirReordering) {
  for (int64_t elements = 1; elements < kBlockElements; ++elements) {
    std::vector<uint8_t> natural((elements + 1) / 2);
    for (int64_t i = 0; i < elements; ++i) natural[i / 2] |= (i * 7 % 16) << (i % 2 * 4);
    std::vector<uint8_t> words(kHalfBytesPerBlock), back(natural.size());
    UnpackHalfByteTail(natural.data(), elements, words.data());
    PackHalfByteTail(words.data(), elements, back.data());
    EXPECT_EQ(back, natural) << elements;
  }
}

TEST(E3m0FormatTest, RefusesTheReservedCodeInEveryPlace) {
  const auto codec = MakeCodec({.kind = CodecKind::kE3m0}).value();
  const int64_t elements = kBlockElements + 22;
  std::vector<uint8_t> payload(codec->PayloadBytes(elements), 0x77);
  ASSERT_TRUE(codec->Validate({elements, 0, payload}).ok());
  for (size_t byte = 0; byte < static_cast<size_t>(elements / 2); ++byte) {
    for (uint8_t reserved : {0x87, 0x78, 0x88}) {
      payload[byte] = reserved;
      EXPECT_EQ(codec->Validate({elements, 0, payload}).code(), absl::StatusCode::kInvalidArgument)
          << byte;
    }
    payload[byte] = 0x77;
  }
  payload.back() = 0x88;  // A scale, not a code.
  EXPECT_TRUE(codec->Validate({elements, 0, payload}).ok());
}

TEST(E3m0FormatTest, ZeroSegmentIsAllZeroBytes) {
  const OneBlock block(std::vector<float>{-0.0f, 1e-40f, 0x1.8p-120f});
  EXPECT_EQ(block.base_exponent, 0);
  EXPECT_EQ(block.payload, std::vector<uint8_t>(65));
}

TEST(E3m0FormatTest, ScaleBelowTheSmallestDecodesToZero) {
  const auto codec = MakeCodec({.kind = CodecKind::kE3m0}).value();
  std::vector<uint8_t> payload(65, 0x77);
  payload[64] = 8 * 31 - 1;  // 1.875 * 2^-120 at the smallest base exponent.
  std::vector<float> out(kBlockElements, 1.0f);
  ASSERT_TRUE(codec->Validate({kBlockElements, e3m0::kBaseExponentMin, payload}).ok());
  ASSERT_TRUE(
      codec->Decode({kBlockElements, e3m0::kBaseExponentMin, payload}, absl::MakeSpan(out)).ok());
  EXPECT_EQ(out, std::vector<float>(kBlockElements, 0.0f));
  payload[64] = 8 * 31;  // 2^-119.
  ASSERT_TRUE(
      codec->Decode({kBlockElements, e3m0::kBaseExponentMin, payload}, absl::MakeSpan(out)).ok());
  EXPECT_EQ(out, std::vector<float>(kBlockElements, 0x1p-119f));
}

class E3m0RangeTest : public testing::TestWithParam<float> {};

// The scale of the second block is `GetParam()` below that of the first.
TEST_P(E3m0RangeTest, BlockFarBelowTheLargestIsZeroAndItsErrorIsItself) {
  const float small = GetParam();
  std::vector<float> in(2 * kBlockElements + 3, small);
  in[0] = 1.0f;
  const bool in_range = small >= 0x1p-31f;
  std::vector<float> error(in.size(), 0.0f), out(in.size());
  const auto codec = MakeCodec({.kind = CodecKind::kE3m0}).value();
  std::vector<uint8_t> payload(codec->PayloadBytes(in.size()));
  const auto result =
      codec->Encode({in, {}, error}, absl::MakeSpan(error), absl::MakeSpan(payload));
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->base_exponent, 0);
  ASSERT_TRUE(
      codec->Decode({static_cast<int64_t>(in.size()), 0, payload}, absl::MakeSpan(out)).ok());
  for (size_t i = kBlockElements; i < in.size(); ++i) {
    ASSERT_EQ(out[i], in_range ? small : 0.0f) << i;
    ASSERT_EQ(error[i], in_range ? 0.0f : small) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Ratios, E3m0RangeTest,
                         testing::Values(0x1p-30f, 0x1p-31f, 0x1.ep-32f, 0x1p-32f, 0x1p-60f));

}  // namespace
}  // namespace longhaul

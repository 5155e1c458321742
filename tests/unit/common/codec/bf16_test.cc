#include <gtest/gtest.h>

#include <bit>
#include <limits>
#include <vector>

#include "common/codec/codec.h"

namespace longhaul {
namespace {

uint32_t Coded(uint32_t bits) {
  const auto codec = MakeCodec({.kind = CodecKind::kBf16}).value();
  const float in = std::bit_cast<float>(bits);
  std::vector<uint8_t> payload(2);
  EXPECT_TRUE(codec->Encode({absl::MakeConstSpan(&in, 1)}, {}, absl::MakeSpan(payload)).ok());
  return payload[0] | payload[1] << 8;
}

TEST(Bf16Test, RoundsToNearestEven) {
  EXPECT_EQ(Coded(0x3f800000), 0x3f80u);
  EXPECT_EQ(Coded(0x3f807fff), 0x3f80u);
  EXPECT_EQ(Coded(0x3f808000), 0x3f80u);  // Tie, even below.
  EXPECT_EQ(Coded(0x3f808001), 0x3f81u);
  EXPECT_EQ(Coded(0x3f818000), 0x3f82u);  // Tie, even above.
  EXPECT_EQ(Coded(0xbf818000), 0xbf82u);
}

TEST(Bf16Test, KeepsDenormalsAndTheSignOfZero) {
  EXPECT_EQ(Coded(0x00018000), 0x0002u);
  EXPECT_EQ(Coded(0x00008000), 0x0000u);
  EXPECT_EQ(Coded(0x80008001), 0x8001u);
  EXPECT_EQ(Coded(0x80000000), 0x8000u);
}

TEST(Bf16Test, SaturatesInsteadOfRoundingToInf) {
  EXPECT_EQ(Coded(0x7f7fffff), 0x7f7fu);
  EXPECT_EQ(Coded(0xff7f8000), 0xff7fu);
}

TEST(Bf16Test, RefusesCodesOfNanAndInf) {
  const auto codec = MakeCodec({.kind = CodecKind::kBf16}).value();
  for (size_t elements : {1, 31, 32, 33, 1000}) {
    for (size_t at : {size_t{0}, elements - 1}) {
      for (uint8_t high : {0x7f, 0xff}) {
        std::vector<uint8_t> payload(2 * elements, 0x3f);
        EXPECT_TRUE(codec->Validate({static_cast<int64_t>(elements), 0, payload}).ok());
        payload[2 * at] = 0x80;
        payload[2 * at + 1] = high;
        EXPECT_EQ(codec->Validate({static_cast<int64_t>(elements), 0, payload}).code(),
                  absl::StatusCode::kInvalidArgument);
        payload[2 * at] = 0x7f;
        EXPECT_TRUE(codec->Validate({static_cast<int64_t>(elements), 0, payload}).ok());
      }
    }
  }
}

}  // namespace
}  // namespace longhaul

#include "common/safetensors/element_type.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

namespace longhaul {
namespace {

float FromBits(ElementType type, uint16_t bits) {
  uint8_t bytes[2];
  std::memcpy(bytes, &bits, 2);
  float value = 0;
  ToFloat(type, bytes, {&value, 1});
  return value;
}

uint16_t RoundToBf16(float value) {
  uint16_t bits = 0;
  ToBf16({&value, 1}, &bits);
  return bits;
}

TEST(ElementTypeTest, NamesAreThoseOfTheFormat) {
  EXPECT_EQ(NameOf(ElementType::kBf16), "BF16");
  EXPECT_EQ(ElementTypeOf("F32"), ElementType::kF32);
  EXPECT_EQ(ElementTypeOf("f32"), std::nullopt);
  for (int i = 0; i <= static_cast<int>(ElementType::kU64); ++i) {
    const auto type = static_cast<ElementType>(i);
    EXPECT_EQ(ElementTypeOf(NameOf(type)), type);
  }
}

TEST(ElementTypeTest, HalvesOfAllKinds) {
  EXPECT_EQ(FromBits(ElementType::kF16, 0x3c00), 1.0f);
  EXPECT_EQ(FromBits(ElementType::kF16, 0xc500), -5.0f);
  EXPECT_EQ(FromBits(ElementType::kF16, 0x0001), 0x1p-24f);  // The smallest.
  EXPECT_EQ(FromBits(ElementType::kF16, 0x83ff), -0x1.ff8p-15f);
  EXPECT_EQ(FromBits(ElementType::kF16, 0x7bff), 65504.0f);
  EXPECT_TRUE(std::signbit(FromBits(ElementType::kF16, 0x8000)));
  EXPECT_TRUE(std::isinf(FromBits(ElementType::kF16, 0x7c00)));
  EXPECT_TRUE(std::isnan(FromBits(ElementType::kF16, 0x7e00)));
  EXPECT_EQ(FromBits(ElementType::kBf16, 0xbfc0), -1.5f);
}

TEST(ElementTypeTest, EveryBf16SurvivesARoundTrip) {
  for (int bits = 0; bits < 1 << 16; ++bits) {
    const float value = FromBits(ElementType::kBf16, static_cast<uint16_t>(bits));
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(FromBits(ElementType::kBf16, RoundToBf16(value))));
    } else {
      EXPECT_EQ(RoundToBf16(value), bits);
    }
  }
}

TEST(ElementTypeTest, RoundsToNearestEven) {
  EXPECT_EQ(RoundToBf16(1.00390625f), 0x3f80);  // Half way, down to even.
  EXPECT_EQ(RoundToBf16(1.01171875f), 0x3f82);  // Half way, up to even.
  EXPECT_EQ(RoundToBf16(1.00390637f), 0x3f81);  // Above half.
  EXPECT_EQ(RoundToBf16(std::numeric_limits<float>::max()), 0x7f80);
}

}  // namespace
}  // namespace longhaul

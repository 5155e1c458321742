#include "common/codec/codec.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>

namespace longhaul {
namespace {

TEST(CodecTest, KindsAreNumberedAndNamedAsInTheProto) {
  EXPECT_EQ(static_cast<int>(CodecKind::kFp32), 1);
  EXPECT_EQ(static_cast<int>(CodecKind::kTopk2), 7);
  EXPECT_EQ(CodecName(CodecKind::kE3m0), "e3m0");
  EXPECT_EQ(CodecName(static_cast<CodecKind>(0)), "unknown");
}

TEST(CodecTest, MakesEveryKind) {
  for (const auto& [kind, name, pool_bits] : kCodecs) {
    const auto codec = MakeCodec({.kind = kind});
    ASSERT_TRUE(codec.ok()) << codec.status();
    EXPECT_EQ((*codec)->kind(), kind);
    EXPECT_EQ((*codec)->name(), name);
    if (pool_bits > 0) EXPECT_EQ(IntegerCodec(pool_bits), kind);
    EXPECT_EQ((*codec)->exact(), kind == CodecKind::kFp32);
  }
}

TEST(CodecTest, RefusesANumberThatIsNotAKind) {
  for (int number : {0, 9, -1}) {
    EXPECT_EQ(MakeCodec({.kind = static_cast<CodecKind>(number)}).status().code(),
              absl::StatusCode::kInvalidArgument);
  }
}

TEST(CodecTest, RefusesAnOptionThatTheKindLacks) {
  const auto made = [](const CodecOptions& options) { return MakeCodec(options).ok(); };
  for (const auto& [kind, name, pool_bits] : kCodecs) {
    const bool half_byte = kind == CodecKind::kE3m0 || kind == CodecKind::kInt4;
    EXPECT_EQ(made({.kind = kind, .search_scale = true}), half_byte);
    EXPECT_EQ(made({.kind = kind, .stochastic = true}), half_byte || kind == CodecKind::kInt8);
    EXPECT_EQ(made({.kind = kind, .rms_scale = true}), kind == CodecKind::kSign1);
    EXPECT_FALSE(made({.kind = kind, .search_scale = true, .stochastic = true}));
  }
}

TEST(CodecTest, RefusesAnInvalidDecay) {
  for (float decay : {0.0f, -1.0f, 1.5f, std::numeric_limits<float>::quiet_NaN()})
    EXPECT_FALSE(MakeCodec({.kind = CodecKind::kInt8, .feedback_decay = decay}).ok()) << decay;
}

// The table of common/codec/README.md: coded bits for each element in whole blocks.
TEST(CodecTest, BitsAnElement) {
  const auto bits = [](CodecKind kind) {
    return MakeCodec({.kind = kind}).value()->PayloadBytes(4096) * 8 / 4096.0;
  };
  EXPECT_EQ(bits(CodecKind::kFp32), 32);
  EXPECT_EQ(bits(CodecKind::kBf16), 16);
  EXPECT_EQ(bits(CodecKind::kE3m0), 4.0625);
  EXPECT_EQ(bits(CodecKind::kInt8), 8.125);
  EXPECT_EQ(bits(CodecKind::kInt6), 6.125);
  EXPECT_EQ(bits(CodecKind::kInt4), 4.125);
  EXPECT_EQ(bits(CodecKind::kSign1), 1.125);
  EXPECT_EQ(bits(CodecKind::kTopk2), 0.1640625);
}

}  // namespace
}  // namespace longhaul

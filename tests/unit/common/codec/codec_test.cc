#include "common/codec/codec.h"

#include <gtest/gtest.h>

#include <string>

namespace longhaul {
namespace {

TEST(CodecTest, KindsAreNumberedAndNamedAsInTheProto) {
  EXPECT_EQ(static_cast<int>(CodecKind::kFp32), 1);
  EXPECT_EQ(static_cast<int>(CodecKind::kTopk2), 7);
  EXPECT_EQ(CodecName(CodecKind::kE3m0), "e3m0");
  EXPECT_EQ(CodecName(static_cast<CodecKind>(0)), "unknown");
}

TEST(CodecTest, MakesTheKindsThatItHas) {
  for (CodecKind kind : {CodecKind::kFp32, CodecKind::kBf16, CodecKind::kE3m0}) {
    const auto codec = MakeCodec({.kind = kind});
    ASSERT_TRUE(codec.ok()) << codec.status();
    EXPECT_EQ((*codec)->kind(), kind);
    EXPECT_EQ((*codec)->name(), CodecName(kind));
    EXPECT_EQ((*codec)->exact(), kind == CodecKind::kFp32);
  }
}

TEST(CodecTest, NamesTheKnownKindsWhenAKindIsMissing) {
  for (CodecKind kind :
       {CodecKind::kInt8, CodecKind::kInt4, CodecKind::kSign1, CodecKind::kTopk2}) {
    const auto codec = MakeCodec({.kind = kind});
    EXPECT_EQ(codec.status().code(), absl::StatusCode::kUnimplemented);
    const std::string message(codec.status().message());
    EXPECT_NE(message.find(CodecName(kind)), std::string::npos) << message;
    EXPECT_NE(message.find("fp32, bf16 or e3m0"), std::string::npos) << message;
  }
}

TEST(CodecTest, RefusesWhatIsNoKind) {
  EXPECT_EQ(MakeCodec({.kind = static_cast<CodecKind>(0)}).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(MakeCodec({.kind = static_cast<CodecKind>(8)}).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(CodecTest, RefusesAnOptionThatTheKindLacks) {
  const auto codec = MakeCodec({.kind = CodecKind::kBf16, .search_scale = true});
  EXPECT_EQ(codec.status().code(), absl::StatusCode::kInvalidArgument);
}

// Table of common/codec/README.md: coded bits an element in whole blocks.
TEST(CodecTest, BitsAnElement) {
  const auto bits = [](CodecKind kind) {
    return MakeCodec({.kind = kind}).value()->PayloadBytes(128) * 8 / 128.0;
  };
  EXPECT_EQ(bits(CodecKind::kFp32), 32);
  EXPECT_EQ(bits(CodecKind::kBf16), 16);
  EXPECT_EQ(bits(CodecKind::kE3m0), 4.0625);
}

}  // namespace
}  // namespace longhaul

#include "coordinator/store/log_format.h"

#include <string>

#include "gtest/gtest.h"

namespace longhaul {
namespace {

constexpr uint64_t kSalt = 0x1122334455667788;

TEST(LogFormatTest, FramesSurviveARoundTrip) {
  const FrameHeader header = {FrameType::kCommit, 7, 1234, 5, {1, 2}};
  const std::string bytes = EncodeFrameHeader(header, kSalt);
  ASSERT_EQ(static_cast<int64_t>(bytes.size()), kFrameHeaderBytes);
  const auto decoded = DecodeFrameHeader(bytes, kSalt);
  ASSERT_TRUE(decoded.has_value());
  EXPECT_EQ(decoded->type, FrameType::kCommit);
  EXPECT_EQ(decoded->sequence, 7u);
  EXPECT_EQ(decoded->body_bytes, 1234u);
  EXPECT_EQ(decoded->durable_upto, 5u);
  EXPECT_EQ(decoded->body_digest, (Digest128{1, 2}));
}

// The bytes of FORMAT.md. A change here is a new format.
TEST(LogFormatTest, TheLayoutIsFixed) {
  const std::string bytes = EncodeFrameHeader({FrameType::kDownlink, 7, 1234, 5, {1, 2}}, kSalt);
  EXPECT_EQ(bytes.substr(0, 16), std::string("LHFRAME2\2\0\0\0\0\0\0\0", 16));
  EXPECT_EQ(bytes.substr(16, 16),
            std::string("\x88\x77\x66\x55\x44\x33\x22\x11\7\0\0\0\0\0\0\0", 16));
  EXPECT_EQ(bytes.substr(32, 16), std::string("\xd2\4\0\0\0\0\0\0\5\0\0\0\0\0\0\0", 16));
  EXPECT_EQ(bytes.substr(48, 16), std::string("\2\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0", 16));
}

TEST(LogFormatTest, AnyChangedBitIsFound) {
  const std::string frame = EncodeFrameHeader({FrameType::kPart, 7, 1234, 5, {1, 2}}, kSalt);
  for (size_t bit = 0; bit < frame.size() * 8; ++bit) {
    std::string changed = frame;
    changed[bit / 8] ^= 1 << bit % 8;
    EXPECT_FALSE(DecodeFrameHeader(changed, kSalt).has_value()) << bit;
  }
  EXPECT_FALSE(DecodeFrameHeader(frame, kSalt + 1).has_value());
  EXPECT_FALSE(DecodeFrameHeader(frame.substr(0, 79), kSalt).has_value());
  EXPECT_FALSE(DecodeFrameHeader("", kSalt).has_value());
}

TEST(LogFormatTest, FileHeadersSurviveARoundTrip) {
  std::string bytes = EncodeLogFileHeader({3, 99}, kSalt);
  ASSERT_EQ(static_cast<int64_t>(bytes.size()), kLogFileHeaderBytes);
  const auto decoded = DecodeLogFileHeader(bytes, kSalt, "a.log");
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(decoded->number, 3);
  EXPECT_EQ(decoded->bytes, 99);
  EXPECT_TRUE(absl::IsDataLoss(DecodeLogFileHeader(bytes, kSalt + 1, "a.log").status()));
  bytes[24] ^= 1;
  EXPECT_TRUE(absl::IsDataLoss(DecodeLogFileHeader(bytes, kSalt, "a.log").status()));
  bytes[7] = '1';
  EXPECT_TRUE(absl::IsFailedPrecondition(DecodeLogFileHeader(bytes, kSalt, "a.log").status()));
}

TEST(LogFormatTest, NamesSurviveARoundTrip) {
  EXPECT_EQ(LogFileName(12), "0000000012.log");
  EXPECT_EQ(LogFileNumber("0000000012.log"), 12);
  EXPECT_EQ(LogFileNumber("x.log"), std::nullopt);
  EXPECT_EQ(LogFileNumber("other"), std::nullopt);
  // Names that the log never gives, and numbers with which it could not continue.
  EXPECT_EQ(LogFileNumber("segment-12.log"), std::nullopt);
  EXPECT_EQ(LogFileNumber("0000000000.log"), std::nullopt);
  EXPECT_EQ(LogFileNumber("segment--000000001.log"), std::nullopt);
  EXPECT_EQ(LogFileNumber("segment-9223372036854775807.log"), std::nullopt);
}

TEST(LogFormatTest, FramesTakeWholeDeviceBlocks) {
  EXPECT_EQ(FrameBytes(0), 4096);
  EXPECT_EQ(FrameBytes(4096 - 80), 4096);
  EXPECT_EQ(FrameBytes(4096 - 79), 8192);
}

}  // namespace
}  // namespace longhaul

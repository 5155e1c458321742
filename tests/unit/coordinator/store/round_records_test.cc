#include "coordinator/store/round_records.h"

#include <string>

#include "gtest/gtest.h"

namespace longhaul {
namespace {

LoggedCommit SampleCommit() {
  LoggedCommit commit;
  commit.record = {.round = {3, 12, RoundKind::kFinal},
                   .digest = {5, 6},
                   .pools = {"east", "west"},
                   .incarnations = {"3", ""},
                   .evaluator = "west",
                   .due = absl::FromUnixMicros(1700000000123456),
                   .downlink_nmse = 0.03,
                   .outer_gradient_norm = 1.5,
                   .outer_parameter_norm = 80,
                   .downlink_bytes = 999};
  commit.arithmetic = 1;
  commit.previous = {7, 8};
  commit.first_downlink = 44;
  commit.weights = {1, 2.5};
  commit.inputs = {{{40, {1, 2}}, {41, {3, 4}}}, {{42, {9, 9}}}};
  return commit;
}

TEST(RoundRecordsTest, CommitsSurviveARoundTrip) {
  const std::string bytes = EncodeCommit(SampleCommit());
  const auto decoded = DecodeCommit(bytes);
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(EncodeCommit(*decoded), bytes);
  EXPECT_EQ(decoded->record.round.kind, RoundKind::kFinal);
  EXPECT_EQ(decoded->record.pools[1], "west");
  EXPECT_EQ(decoded->record.evaluator, "west");
  EXPECT_EQ(decoded->record.due, absl::FromUnixMicros(1700000000123456));
  EXPECT_EQ(decoded->inputs[0][1].sequence, 41u);
  EXPECT_EQ(decoded->weights[1], 2.5);
}

TEST(RoundRecordsTest, PartsSurviveARoundTrip) {
  const PartInfo part = {
      {1, 7, RoundKind::kOuter}, "north", CodecKind::kE3m0, {{0, 65536, -3}, {512, 100, 5}}, "i1"};
  const std::string bytes = EncodePart(part);
  EXPECT_EQ(*DecodeRecordSize(bytes.substr(0, 4), bytes.size() + 10),
            static_cast<int64_t>(bytes.size()));
  const auto decoded = DecodePart(bytes);
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(decoded->round, part.round);
  EXPECT_EQ(decoded->pool, "north");
  EXPECT_EQ(decoded->incarnation, "i1");
  EXPECT_EQ(decoded->codec, CodecKind::kE3m0);
  EXPECT_EQ(decoded->segments, part.segments);
}

TEST(RoundRecordsTest, RefusesImpossibleSegments) {
  for (const SegmentRef& bad : {SegmentRef{0, 0}, SegmentRef{0, -128}, SegmentRef{0, 65537},
                                SegmentRef{-1, 128}, SegmentRef{int64_t{1} << 57, 128}}) {
    EXPECT_EQ(DecodePart(EncodePart({.pool = "north", .segments = {bad}})).status().code(),
              absl::StatusCode::kDataLoss);
    EXPECT_EQ(DecodeDownlinkPart(EncodeDownlinkPart({.segments = {bad}})).status().code(),
              absl::StatusCode::kDataLoss);
  }
}

TEST(RoundRecordsTest, DownlinkPartsSurviveARoundTrip) {
  const DownlinkPart part = {1, 7, CodecKind::kBf16, {{0, 65536, 0}}};
  const auto decoded = DecodeDownlinkPart(EncodeDownlinkPart(part));
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(decoded->fragment, 1);
  EXPECT_EQ(decoded->version, 7);
  EXPECT_EQ(decoded->codec, CodecKind::kBf16);
  EXPECT_EQ(decoded->segments, part.segments);
}

// A record with a field of a later program, number 100.
TEST(RoundRecordsTest, IgnoresFieldsOfALaterProgram) {
  const auto later = [](std::string record) {
    record += std::string("\xa2\x06\x05later", 8);
    record[0] = static_cast<char>(record.size());
    EXPECT_LT(record.size(), 256u);
    return record;
  };
  const auto part = DecodePart(later(EncodePart({.round = {.version = 7}, .pool = "north"})));
  ASSERT_TRUE(part.ok()) << part.status();
  EXPECT_EQ(part->pool, "north");
  EXPECT_EQ(DecodeDownlinkPart(later(EncodeDownlinkPart({.version = 7})))->version, 7);
  LoggedCommit commit = SampleCommit();
  commit.inputs[0].clear();
  const auto decoded = DecodeCommit(later(EncodeCommit(commit)));
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(decoded->weights[1], 2.5);
}

TEST(RoundRecordsTest, KindsOfALaterProgramAreRefused) {
  std::string record = EncodePart({.round = {.version = 7}, .pool = "north"});
  const size_t at = record.find(std::string("\x18\x02", 2));
  ASSERT_NE(at, std::string::npos);
  record[at + 1] = 9;
  EXPECT_TRUE(absl::IsDataLoss(DecodePart(record).status()));
}

// If bytes are cut off or added, nothing is allocated from a wrong count and nothing decodes.
TEST(RoundRecordsTest, RefusesOtherSizes) {
  const std::string commit = EncodeCommit(SampleCommit());
  for (size_t size = 0; size < commit.size(); ++size) {
    EXPECT_TRUE(absl::IsDataLoss(DecodeCommit(commit.substr(0, size)).status())) << size;
  }
  EXPECT_FALSE(DecodeCommit(commit + "x").ok());
  const std::string part =
      EncodePart({1, 7, RoundKind::kOuter, "n", CodecKind::kE3m0, {{0, 5, 0}}});
  for (size_t size = 0; size < part.size(); ++size) {
    EXPECT_TRUE(absl::IsDataLoss(DecodePart(part.substr(0, size)).status())) << size;
  }
  EXPECT_FALSE(DecodeRecordSize("abc", 100).ok());
  EXPECT_FALSE(DecodeRecordSize(std::string("\1\0\0\0", 4), 100).ok());
  EXPECT_FALSE(DecodeRecordSize(std::string("\x65\0\0\0", 4), 100).ok());
}

}  // namespace
}  // namespace longhaul

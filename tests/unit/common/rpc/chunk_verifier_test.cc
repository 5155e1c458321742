#include "common/rpc/chunk_verifier.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/rpc/status_details.h"
#include "gtest/gtest.h"
#include "tests/unit/common/rpc/bulk_testing.h"

namespace longhaul {
namespace {

// A fragment with a short last block. A stream brings two ranges of it: blocks 10..2009 and
// 3000..3100.
constexpr int64_t kElements = 3100 * 128 + 77;
const std::vector<BlockRange> kBlocks = {{10, 2000}, {3000, 101}};

class ChunkVerifierTest : public ::testing::Test {
 protected:
  ChunkVerifierTest() : blocks_(MakeBlocks(kBlocks, kElements)), chunks_(ChunksOf(blocks_)) {}

  int64_t bytes() const { return blocks_->payload.size(); }

  absl::StatusOr<CodedBlocks> Receive(const std::vector<std::string>& chunks,
                                      int64_t declared = 0) {
    absl::StatusOr<ChunkVerifier> verifier = ChunkVerifier::Create(
        {.fragment = 3, .blocks = kBlocks, .payload_bytes = declared > 0 ? declared : bytes()},
        {.fragment_elements = kElements,
         .payload_bytes_max = 1 << 30,
         .segment_bytes = FourBytesEach});
    if (!verifier.ok()) return verifier.status();
    ReceivedBlocks received;
    for (const std::string& chunk : chunks) {
      const absl::StatusOr<CodedChunk> verified = verifier->Verify(ToBuffer(chunk), wire_);
      if (!verified.ok()) return verified.status();
      received.Add(*verified);
    }
    const absl::Status whole = verifier->Finish();
    if (!whole.ok()) return whole;
    return std::move(received).Blocks();
  }

  void ExpectRefused(const std::vector<std::string>& chunks, absl::StatusCode code,
                     const std::string& reason, int64_t block, int64_t offset) {
    const absl::Status status = Receive(chunks).status();
    EXPECT_EQ(status.code(), code) << status;
    const ErrorDetail expected{
        reason,
        {{"fragment", "3"}, {"block", absl::StrCat(block)}, {"offset", absl::StrCat(offset)}}};
    EXPECT_EQ(ErrorInfoOf(status), expected) << status;
  }
  // Changes the proto of the first chunk.
  void ExpectEditRefused(const std::function<void(v1::PushMessage&)>& edit, absl::StatusCode code,
                         const std::string& reason, int64_t block) {
    std::vector<std::string> chunks = chunks_;
    chunks[0] = Edited(chunks[0], edit);
    ExpectRefused(chunks, code, reason, block, 0);
  }

  static constexpr absl::StatusCode kInvalid = absl::StatusCode::kInvalidArgument;
  const std::shared_ptr<CodedBlocks> blocks_;
  const std::vector<std::string> chunks_;
  WireBytes wire_;
};

TEST_F(ChunkVerifierTest, GivesTheChunksInOrder) {
  ASSERT_EQ(chunks_.size(), 2);
  const absl::StatusOr<CodedBlocks> received = Receive(chunks_);
  ASSERT_TRUE(received.ok()) << received.status();
  EXPECT_TRUE(SameBlocks(*received, *blocks_));
  EXPECT_EQ(wire_.payload, bytes());
  EXPECT_GT(wire_.total, bytes());
}

TEST_F(ChunkVerifierTest, AChunkIsReadInPlace) {
  absl::StatusOr<ChunkVerifier> verifier =
      ChunkVerifier::Create({.fragment = 3, .blocks = kBlocks, .payload_bytes = bytes()},
                            {.fragment_elements = kElements,
                             .payload_bytes_max = 1 << 30,
                             .segment_bytes = FourBytesEach});
  ASSERT_TRUE(verifier.ok());
  grpc::ByteBuffer message = ToBuffer(chunks_[0], 1000);
  std::vector<grpc::Slice> slices;
  ASSERT_TRUE(message.Dump(&slices).ok());
  const absl::StatusOr<CodedChunk> chunk = verifier->Verify(message, wire_);
  ASSERT_TRUE(chunk.ok()) << chunk.status();
  ASSERT_EQ(chunk->pieces.size(), slices.size());
  for (size_t i = 1; i < slices.size(); ++i) EXPECT_EQ(chunk->pieces[i].data(), slices[i].begin());
  slices.clear();
  message.Clear();
  EXPECT_EQ(chunk->pieces.back().back(), static_cast<uint8_t>(chunks_[0].back()))
      << "the chunk keeps its bytes alive";
}

TEST_F(ChunkVerifierTest, RefusesAnEarlyEnd) {
  ExpectRefused({}, absl::StatusCode::kDataLoss, "STREAM_TRUNCATED", 10, 0);
  // The first chunk ends with the first range.
  ExpectRefused({chunks_[0]}, absl::StatusCode::kDataLoss, "STREAM_TRUNCATED", 3000, 2000 * 512);
}

TEST_F(ChunkVerifierTest, RefusesAFlippedBit) {
  std::vector<std::string> chunks = chunks_;
  chunks[0].back() ^= 1;
  ExpectRefused(chunks, absl::StatusCode::kDataLoss, "HASH_MISMATCH", 10, 0);
  chunks = chunks_;
  chunks[1][chunks[1].size() / 2] ^= 0x40;
  v1::PushMessage first, second;
  ASSERT_TRUE(first.ParseFromString(chunks_[0]) && second.ParseFromString(chunks_[1]));
  ExpectRefused(chunks, absl::StatusCode::kDataLoss, "HASH_MISMATCH",
                second.segments(0).first_block(), first.payload().size());
}

TEST_F(ChunkVerifierTest, RefusesAnotherHash) {
  ExpectEditRefused([](v1::PushMessage& m) { m.set_payload_hash(m.payload_hash() + 1); },
                    absl::StatusCode::kDataLoss, "HASH_MISMATCH", 10);
  ExpectEditRefused([](v1::PushMessage& m) { m.clear_payload_hash(); }, absl::StatusCode::kDataLoss,
                    "HASH_MISMATCH", 10);
}

TEST_F(ChunkVerifierTest, RefusesChunksInAnotherOrder) {
  ExpectRefused({chunks_[1], chunks_[0]}, kInvalid, "MALFORMED_SEGMENT", 10, 0);
}

TEST_F(ChunkVerifierTest, RefusesAChunkThatCameAlready) {
  v1::PushMessage first, second;
  ASSERT_TRUE(first.ParseFromString(chunks_[0]) && second.ParseFromString(chunks_[1]));
  ExpectRefused({chunks_[0], chunks_[0]}, kInvalid, "MALFORMED_SEGMENT",
                second.segments(0).first_block(), first.payload().size());
}

TEST_F(ChunkVerifierTest, RefusesChunksAfterTheLastBlock) {
  ExpectRefused({chunks_[0], chunks_[1], chunks_[1]}, kInvalid, "MALFORMED_SEGMENT", 3101, bytes());
}

TEST_F(ChunkVerifierTest, RefusesMissingBlocks) {
  ExpectEditRefused([](v1::PushMessage& m) { m.mutable_segments()->DeleteSubrange(0, 1); },
                    kInvalid, "MALFORMED_SEGMENT", 10);
  ExpectEditRefused([](v1::PushMessage& m) { m.mutable_segments()->DeleteSubrange(1, 1); },
                    kInvalid, "MALFORMED_SEGMENT", 512);
}

TEST_F(ChunkVerifierTest, RefusesOverlappingBlocks) {
  ExpectEditRefused([](v1::PushMessage& m) { m.mutable_segments(1)->set_first_block(511); },
                    kInvalid, "MALFORMED_SEGMENT", 512);
}

TEST_F(ChunkVerifierTest, RefusesSegmentsThatAreNoWholeBlocksOfOneTileAndRange) {
  for (const int32_t elements : {0, -128, 1, 127, 502 * 128 - 1, 502 * 128 + 128, 65537, 1 << 30}) {
    ExpectEditRefused([&](v1::PushMessage& m) { m.mutable_segments(0)->set_elements(elements); },
                      kInvalid, "MALFORMED_SEGMENT", 10);
  }
  const auto last_segment = [this](int32_t elements) {
    std::vector<std::string> chunks = chunks_;
    chunks[1] = Edited(chunks[1], [&](v1::PushMessage& m) {
      m.mutable_segments(m.segments_size() - 1)->set_elements(elements);
    });
    return Receive(chunks).status();
  };
  // The last segment begins at a tile (block 3072) and has 28 whole blocks and 77 elements.
  EXPECT_TRUE(last_segment(28 * 128 + 77).ok());
  for (const int32_t elements : {28 * 128 + 76, 28 * 128 + 78, 29 * 128, 30 * 128}) {
    EXPECT_EQ(last_segment(elements).code(), kInvalid);
  }
}

TEST_F(ChunkVerifierTest, RefusesASegmentThatIsNotOfItsCodedSize) {
  ExpectEditRefused([](v1::PushMessage& m) { m.mutable_payload()->push_back('x'); }, kInvalid,
                    "MALFORMED_SEGMENT", 10);
  ExpectEditRefused([](v1::PushMessage& m) { m.mutable_payload()->pop_back(); }, kInvalid,
                    "MALFORMED_SEGMENT", 10);
}

TEST_F(ChunkVerifierTest, RefusesAChunkWithAHeaderOrWithoutAnything) {
  ExpectEditRefused([](v1::PushMessage& m) { m.mutable_header(); }, kInvalid, "MALFORMED_CHUNK",
                    10);
  ExpectEditRefused([](v1::PushMessage& m) { m.clear_payload(); }, kInvalid, "MALFORMED_CHUNK", 10);
  ExpectEditRefused([](v1::PushMessage& m) { m.clear_segments(); }, kInvalid, "MALFORMED_CHUNK",
                    10);
  ExpectRefused({""}, kInvalid, "MALFORMED_CHUNK", 10, 0);
}

TEST_F(ChunkVerifierTest, RefusesBytesThatAreNoMessage) {
  ExpectRefused({chunks_[0].substr(0, 1000)}, kInvalid, "MALFORMED_MESSAGE", 10, 0);
  ExpectRefused({chunks_[0] + "\x98\x06\x07"}, kInvalid, "MALFORMED_MESSAGE", 10, 0);
}

TEST_F(ChunkVerifierTest, RefusesWhatIsTooLarge) {
  ExpectEditRefused([](v1::PushMessage& m) { m.set_payload(std::string((1 << 20) + 1, 'x')); },
                    absl::StatusCode::kResourceExhausted, "MESSAGE_TOO_LARGE", 10);
  ExpectEditRefused(
      [](v1::PushMessage& m) {
        while (m.ByteSizeLong() - m.payload().size() < (64 << 10))
          *m.add_segments() = m.segments(0);
      },
      absl::StatusCode::kResourceExhausted, "MESSAGE_TOO_LARGE", 10);
}

TEST_F(ChunkVerifierTest, RefusesMoreOrLessThanDeclared) {
  EXPECT_EQ(ErrorInfoOf(Receive(chunks_, bytes() - 1).status())->reason, "STREAM_TOO_LARGE");
  EXPECT_EQ(Receive(chunks_, bytes() + 1).status().code(), kInvalid);
}

TEST_F(ChunkVerifierTest, SkipsFieldsOfALaterVersion) {
  std::vector<std::string> chunks = chunks_;
  chunks[0] = "\x98\x06\x07" + chunks[0];
  EXPECT_TRUE(Receive(chunks).ok());
}

TEST(ChunkVerifierCreateTest, ChecksTheDeclaration) {
  const auto create = [](std::vector<BlockRange> blocks, int64_t bytes) {
    return ChunkVerifier::Create(
               {.fragment = 3, .blocks = std::move(blocks), .payload_bytes = bytes},
               {.fragment_elements = 1280,
                .payload_bytes_max = 1000,
                .segment_bytes = FourBytesEach})
        .status();
  };
  EXPECT_TRUE(create({{0, 10}}, 1000).ok());
  EXPECT_TRUE(absl::IsInvalidArgument(create({{0, 11}}, 1000)));
  EXPECT_TRUE(absl::IsInvalidArgument(create({{0, 10}}, 0)));
  EXPECT_TRUE(absl::IsInvalidArgument(create({{0, 10}}, INT64_MIN)));
  EXPECT_TRUE(absl::IsResourceExhausted(create({{0, 10}}, 1001)));
  EXPECT_TRUE(absl::IsResourceExhausted(create({{0, 10}}, INT64_MAX)));
}

}  // namespace
}  // namespace longhaul

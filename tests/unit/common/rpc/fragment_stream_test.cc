#include "common/rpc/fragment_stream.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/common/rpc/bulk_testing.h"

namespace longhaul {
namespace {

std::string PayloadOf(const IncomingMessage& message) {
  std::string bytes;
  for (const auto& piece : message.payload()) {
    bytes.append(reinterpret_cast<const char*>(piece.data()), piece.size());
  }
  return bytes;
}

absl::StatusCode ParseCode(absl::string_view bytes) {
  return IncomingMessage::Parse(ToBuffer(bytes)).status().code();
}

TEST(ChunkWriterTest, AChunkIsAValidMessageOfBothKinds) {
  const auto blocks = MakeFragment(1000);
  const std::vector<std::string> chunks = ChunksOf(blocks);
  ASSERT_EQ(chunks.size(), 1);
  v1::PushMessage push;
  v1::PullMessage pull;
  ASSERT_TRUE(push.ParseFromString(chunks[0]) && pull.ParseFromString(chunks[0]));
  const std::string payload(reinterpret_cast<const char*>(blocks->payload.data()), 4000);
  EXPECT_EQ(push.payload(), payload);
  EXPECT_EQ(pull.payload(), payload);
  EXPECT_EQ(push.payload_hash(), XXH3_64bits(payload.data(), payload.size()));
  ASSERT_EQ(push.segments_size(), 1);
  EXPECT_EQ(push.segments(0).elements(), 1000);
  EXPECT_EQ(push.segments(0).base_exponent(), -50);
}

TEST(ChunkWriterTest, SendsTheOwnersMemoryItself) {
  const auto blocks = MakeFragment(4 * kTileElements);
  ChunkWriter writer(SourceOf(blocks, FourBytesEach));
  int64_t payload_bytes = 0;
  const grpc::ByteBuffer chunk = writer.Next(&payload_bytes);
  EXPECT_EQ(payload_bytes, kPayloadBytesMax);
  std::vector<grpc::Slice> slices;
  ASSERT_TRUE(chunk.Dump(&slices).ok());
  // The rest, and four neighbouring segments as one slice.
  ASSERT_EQ(slices.size(), 2);
  EXPECT_LT(slices[0].size(), 200);
  EXPECT_EQ(slices[1].begin(), blocks->payload.data());
  EXPECT_EQ(slices[1].size(), blocks->payload.size());
}

TEST(ChunkWriterTest, KeepsTheMemoryWhileASliceIsInFlight) {
  auto blocks = MakeFragment(1000);
  const std::weak_ptr<CodedBlocks> watch = blocks;
  grpc::ByteBuffer in_flight;
  {
    ChunkWriter writer(SourceOf(std::move(blocks), FourBytesEach));
    int64_t payload_bytes = 0;
    in_flight = writer.Next(&payload_bytes);
  }
  EXPECT_FALSE(watch.expired());
  in_flight.Clear();
  EXPECT_TRUE(watch.expired());
}

TEST(ChunkWriterTest, JoinsNeighboursAndReferencesTheOthers) {
  const auto blocks = MakeBlocks({{0, 1}, {5, 1}, {9, 1}}, 10 * 128);
  CodedSource source = SourceOf(blocks, FourBytesEach);
  std::swap(source.payloads[0], source.payloads[2]);
  ChunkWriter writer(source);
  int64_t payload_bytes = 0;
  std::vector<grpc::Slice> slices;
  ASSERT_TRUE(writer.Next(&payload_bytes).Dump(&slices).ok());
  ASSERT_EQ(slices.size(), 4);
  EXPECT_EQ(slices[1].begin(), blocks->payload.data() + 1024);
  EXPECT_EQ(slices[2].begin(), blocks->payload.data() + 512);
  EXPECT_EQ(slices[3].begin(), blocks->payload.data());
}

TEST(ChunkWriterTest, NoMessageIsLargerThanAReceiverTakes) {
  // Segments lie far apart, so varints are long, and the rest is as large as possible.
  CodedSource source;
  const auto bytes = std::make_shared<std::vector<uint8_t>>(1);
  for (int i = 0; i < 2 * kChunkSegmentsMax + 1; ++i) {
    source.segments.push_back(
        {(int64_t{1} << 62) + 2 * i, static_cast<int32_t>(kTileElements), -1});
    source.payloads.push_back(*bytes);
  }
  source.owner = bytes;
  ChunkWriter writer(source);
  int chunks = 0;
  for (; !writer.done(); ++chunks) {
    int64_t payload_bytes = 0;
    const auto message = IncomingMessage::Parse(writer.Next(&payload_bytes));
    ASSERT_TRUE(message.ok()) << message.status();
    EXPECT_LE(message->rest().size(), kRestBytesMax);
  }
  EXPECT_EQ(chunks, 3);
}

TEST(IncomingMessageTest, ReadsAChunkHoweverItIsCutIntoSlices) {
  const std::string chunk = ChunksOf(MakeFragment(130))[0];
  v1::PushMessage whole;
  ASSERT_TRUE(whole.ParseFromString(chunk));
  for (size_t slice_bytes = 1; slice_bytes <= chunk.size(); ++slice_bytes) {
    const auto message = IncomingMessage::Parse(ToBuffer(chunk, slice_bytes));
    ASSERT_TRUE(message.ok());
    ASSERT_EQ(PayloadOf(*message), whole.payload());
    ASSERT_EQ(message->payload_bytes(), 520);
    v1::PushMessage rest;
    ASSERT_TRUE(rest.ParseFromString(std::string(message->rest())));
    ASSERT_EQ(rest.payload_hash(), whole.payload_hash());
    ASSERT_TRUE(rest.payload().empty());
  }
}

TEST(IncomingMessageTest, ReadsThePayloadInPlace) {
  const std::string chunk = ChunksOf(MakeFragment(100000))[0];
  const grpc::Slice slice(chunk.data(), chunk.size());
  const auto message = IncomingMessage::Parse(grpc::ByteBuffer(&slice, 1));
  ASSERT_TRUE(message.ok());
  ASSERT_EQ(message->payload().size(), 1);
  EXPECT_EQ(message->payload()[0].data() + message->payload()[0].size(), slice.end());
}

TEST(IncomingMessageTest, ReadsAMessageWithoutPayload) {
  v1::PushMessage header;
  header.mutable_header()->set_job_id("job");
  const auto message = IncomingMessage::Parse(SerializeToByteBuffer(header));
  ASSERT_TRUE(message.ok());
  EXPECT_EQ(message->rest(), header.SerializeAsString());
  EXPECT_EQ(message->payload_bytes(), 0);
  EXPECT_TRUE(IncomingMessage::Parse(ToBuffer("")).ok());
}

TEST(IncomingMessageTest, SkipsUnknownFieldsBeforeThePayload) {
  const std::string chunk = ChunksOf(MakeFragment(130))[0];
  const std::string unknown("\xa2\x06\x03xyz\x98\x06\x07", 9);  // 100: "xyz", 99: 7.
  const auto message = IncomingMessage::Parse(ToBuffer(unknown + chunk));
  ASSERT_TRUE(message.ok());
  EXPECT_EQ(message->payload_bytes(), 520);
}

TEST(IncomingMessageTest, RefusesAnythingAfterThePayload) {
  const std::string chunk = ChunksOf(MakeFragment(130))[0];
  EXPECT_EQ(ParseCode(chunk + "\x98\x06\x07"), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ParseCode(chunk + chunk), absl::StatusCode::kInvalidArgument);
}

TEST(IncomingMessageTest, RefusesEveryTruncationWithinAField) {
  const std::string chunk = ChunksOf(MakeFragment(130))[0];
  v1::PushMessage rest;
  ASSERT_TRUE(rest.ParseFromString(chunk));
  rest.clear_payload();
  const std::string hash_only = Edited(chunk, [](v1::PushMessage& m) { m.clear_payload(); });
  const size_t segment_end = hash_only.size() - 9;
  for (size_t size = 1; size < chunk.size(); ++size) {
    // Only whole fields remain, so this is a valid shorter message.
    if (size == segment_end || size == hash_only.size()) continue;
    EXPECT_EQ(ParseCode(chunk.substr(0, size)), absl::StatusCode::kInvalidArgument) << size;
  }
}

TEST(IncomingMessageTest, RefusesWhatIsTooLarge) {
  v1::PushMessage message;
  message.set_payload(std::string(kPayloadBytesMax, 'x'));
  EXPECT_EQ(ParseCode(message.SerializeAsString()), absl::StatusCode::kOk);
  message.set_payload(std::string(kPayloadBytesMax + 1, 'x'));
  EXPECT_EQ(ParseCode(message.SerializeAsString()), absl::StatusCode::kResourceExhausted);

  message.Clear();
  message.mutable_header()->set_job_id(std::string(kRestBytesMax - 8, 'x'));
  ASSERT_EQ(message.ByteSizeLong(), kRestBytesMax);
  EXPECT_EQ(ParseCode(message.SerializeAsString()), absl::StatusCode::kOk);
  message.mutable_header()->mutable_job_id()->push_back('x');
  EXPECT_EQ(ParseCode(message.SerializeAsString()), absl::StatusCode::kResourceExhausted);
}

TEST(IncomingMessageTest, RefusesEndlessGroups) {
  EXPECT_EQ(ParseCode(std::string(30000, '\x0b')), absl::StatusCode::kInvalidArgument);
}

TEST(ParseFromByteBufferTest, BoundsAndChecksARequest) {
  v1::PullRequest request, parsed;
  request.set_job_id("job");
  ASSERT_TRUE(ParseFromByteBuffer(SerializeToByteBuffer(request), &parsed).ok());
  EXPECT_EQ(parsed.job_id(), "job");
  EXPECT_TRUE(absl::IsInvalidArgument(ParseFromByteBuffer(ToBuffer("\xff\xff"), &parsed)));
  request.set_job_id(std::string(kRestBytesMax, 'x'));
  EXPECT_TRUE(
      absl::IsResourceExhausted(ParseFromByteBuffer(SerializeToByteBuffer(request), &parsed)));
}

}  // namespace
}  // namespace longhaul

// One message of a bulk stream, and the small messages that begin streams: where the payload is
// cut, the bounds, the block ranges.
//   input: u8 bytes of a slice | u32 elements of the fragment | message
#include <string>
#include <vector>

#include "common/blocks/coded_blocks.h"
#include "common/rpc/block_proto.h"
#include "common/rpc/fragment_stream.h"
#include "longhaul/v1/sync.pb.h"
#include "tests/fuzz/common/rpc/sliced_buffer.h"
#include "tests/fuzz/documented.h"
#include "tests/fuzz/fuzz_input.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/quiet_protobuf.h"

namespace longhaul::fuzz::bulk_message_fuzz {
namespace {

constexpr int64_t kElementsMax = 1 << 20;

void CheckCut(const grpc::ByteBuffer& buffer, absl::string_view bytes) {
  const absl::StatusOr<IncomingMessage> message = IncomingMessage::Parse(buffer);
  CheckDocumented(message.status(),
                  {absl::StatusCode::kInvalidArgument, absl::StatusCode::kResourceExhausted});
  if (!message.ok()) return;
  LH_CHECK(static_cast<int64_t>(message->rest().size()) <= kRestBytesMax, "a bounded rest");
  LH_CHECK(message->payload_bytes() <= kPayloadBytesMax, "a bounded payload");
  LH_CHECK(message->message_bytes() == static_cast<int64_t>(bytes.size()), "the whole message");
  std::string payload;
  for (const auto& piece : message->payload()) {
    payload.append(reinterpret_cast<const char*>(piece.data()), piece.size());
  }
  LH_CHECK(static_cast<int64_t>(payload.size()) == message->payload_bytes(), "all of the payload");
  LH_CHECK(bytes.substr(0, message->rest().size()) == message->rest(), "the rest comes first");
  LH_CHECK(bytes.substr(bytes.size() - payload.size()) == payload, "the payload comes last");
  // Cut or not, it means the same to protobuf.
  v1::PushMessage rest, whole;
  if (!rest.ParseFromString(std::string(message->rest()))) return;
  LH_CHECK(whole.ParseFromString(std::string(bytes)), "a message that was cut is a message");
  LH_CHECK(whole.payload() == payload && rest.payload().empty(), "the same payload");
}

void CheckRanges(const BlockRangesProto& ranges, int64_t elements) {
  const std::vector<BlockRange> blocks = BlocksFromProto(ranges);
  const absl::Status status = CheckBlocksField(blocks, elements);
  CheckDocumented(status, {absl::StatusCode::kInvalidArgument});
  if (!status.ok()) return;
  int64_t covered = 0;
  for (const SegmentRef& segment : CutSegments(blocks, elements)) {
    LH_CHECK(segment.elements >= 1 && segment.elements <= kTileElements, "segments within tiles");
    covered += segment.elements;
  }
  LH_CHECK(covered == ElementsOf(blocks, elements) && covered <= elements, "each element once");
  LH_CHECK(!SplitBlocks(blocks, 3).empty(), "a part for each channel");
}

template <typename Message>
bool Parse(const grpc::ByteBuffer& buffer, Message* message) {
  const absl::Status status = ParseFromByteBuffer(buffer, message);
  CheckDocumented(status,
                  {absl::StatusCode::kInvalidArgument, absl::StatusCode::kResourceExhausted});
  return status.ok();
}

}  // namespace

std::vector<Seed> Seeds() {
  const auto seed = [](const google::protobuf::MessageLite& message) {
    return FuzzWriter().Byte(7).Put(uint32_t{1000}).Bytes(message.SerializeAsString()).Take();
  };
  v1::PushMessage header;
  header.mutable_header()->set_job_id("20250101-000000-00abcd");
  header.mutable_header()->set_pool("oslo");
  header.mutable_header()->set_version(3);
  header.mutable_header()->set_payload_bytes(512);
  *header.mutable_header()->mutable_blocks() = BlocksToProto({{0, 2}, {4, 1}});
  v1::PullRequest pull;
  pull.set_pool("oslo");
  pull.set_whole(true);
  *pull.mutable_blocks() = BlocksToProto({{1, 7}});
  v1::PullMessage answer;
  answer.mutable_header()->set_codec(v1::E3M0);
  v1::PushMessage chunk;
  SegmentToProto({4, 128, -3}, chunk.add_segments());
  chunk.set_payload_hash(99);
  chunk.set_payload("payload");
  return {{"push_header", seed(header)},
          {"pull_request", seed(pull)},
          {"pull_header", seed(answer)},
          {"chunk", seed(chunk)}};
}

int TestOneInput(const uint8_t* data, size_t size) {
  FuzzInput input(data, size);
  const size_t slice_bytes = input.Byte();
  const int64_t elements = input.Take<uint32_t>() % kElementsMax + 1;
  const absl::string_view bytes = input.Rest();
  const grpc::ByteBuffer buffer = SlicedBuffer(bytes, slice_bytes);
  CheckCut(buffer, bytes);
  v1::PushMessage push;
  if (Parse(buffer, &push)) CheckRanges(push.header().blocks(), elements);
  v1::PullRequest request;
  if (Parse(buffer, &request)) CheckRanges(request.blocks(), elements);
  v1::PullMessage answer;
  Parse(buffer, &answer);
  return 0;
}

}  // namespace longhaul::fuzz::bulk_message_fuzz

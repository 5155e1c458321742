// A whole bulk stream: what a sender of ours would send, in any order, cut, changed, or replaced by
// other bytes. A stream that is accepted brings exactly the bytes and segments of its messages.
//   input: u32 elements | u8 codec | u8 blocks of a segment | u8 segments of a chunk | u8 ranges
//          (0: the whole fragment; else each i64 first, i64 count) | i64 added to the payload's
//          size | steps: u8 what, then its arguments
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "common/base/checked_math.h"
#include "common/rpc/block_proto.h"
#include "common/rpc/chunk_verifier.h"
#include "common/rpc/fragment_stream.h"
#include "common/rpc/status_details.h"
#include "tests/fuzz/common/rpc/sliced_buffer.h"
#include "tests/fuzz/documented.h"
#include "tests/fuzz/fuzz_input.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/quiet_protobuf.h"

namespace longhaul::fuzz::bulk_stream_fuzz {
namespace {

constexpr int64_t kElementsMax = 2 * kTileElements + 300;
constexpr int kStepsMax = 64;

enum Step : uint8_t { kEnd, kSend, kSendChanged, kSendShort, kSendOther, kSteps };

int64_t PayloadBytes(uint8_t codec, int64_t elements) {
  if (codec % 2 == 0) return 4 * elements;
  return CeilDiv(elements, 2) + CeilDiv(elements, kBlockElements);
}

// The messages that a sender would make of the whole fragment.
std::vector<std::string> HonestChunks(int64_t elements, uint8_t codec, int segment_blocks,
                                      int chunk_segments) {
  const auto bytes = std::make_shared<std::vector<uint8_t>>(PayloadBytes(codec, elements));
  for (size_t i = 0; i < bytes->size(); ++i) (*bytes)[i] = static_cast<uint8_t>(i * 31 + i / 256);
  std::vector<std::string> chunks;
  CodedSource source;
  size_t offset = 0;
  const auto flush = [&] {
    source.owner = bytes;
    for (ChunkWriter writer(std::exchange(source, {})); !writer.done();) {
      int64_t payload_bytes = 0;
      chunks.push_back(FlatBytes(writer.Next(&payload_bytes)));
    }
  };
  const int64_t blocks = CeilDiv(elements, kBlockElements);
  for (int64_t first = 0; first < blocks;) {
    const int64_t tile_end = (first / kTileBlocks + 1) * kTileBlocks;
    const int64_t end = std::min({first + segment_blocks, tile_end, blocks});
    const int64_t count = std::min(end * kBlockElements, elements) - first * kBlockElements;
    const size_t coded = PayloadBytes(codec, count);
    source.segments.push_back({first, static_cast<int32_t>(count), 0});
    source.payloads.push_back(absl::MakeConstSpan(*bytes).subspan(offset, coded));
    offset += coded;
    first = end;
    if (static_cast<int>(source.segments.size()) == chunk_segments) flush();
  }
  if (!source.segments.empty()) flush();
  return chunks;
}

// The next message of the input; false when there is none.
bool NextMessage(FuzzInput& input, const std::vector<std::string>& honest, std::string* message) {
  const auto pick = [&] { return honest[input.Byte() % honest.size()]; };
  switch (input.Byte() % kSteps) {
    case kSend:
      *message = pick();
      return true;
    case kSendChanged:
      *message = pick();
      // The head, where the structure is, is hit as often as all the rest.
      for (int changes = input.Choice(1, 4); changes > 0; --changes) {
        const size_t place = input.Take<uint16_t>();
        (*message)[place % std::min<size_t>(message->size(), 256 << (place % 2 * 8))] ^=
            input.Byte();
      }
      return true;
    case kSendShort:
      *message = pick();
      message->resize(input.Take<uint32_t>() % (message->size() + 1));
      return true;
    case kSendOther:
      *message = std::string(input.String());
      return true;
    default:
      return false;
  }
}

// What the messages of a stream brought, read without the assembler.
struct Brought {
  std::string payload;
  std::vector<SegmentRef> segments;

  void Add(const grpc::ByteBuffer& buffer) {
    const absl::StatusOr<IncomingMessage> message = IncomingMessage::Parse(buffer);
    LH_CHECK(message.ok(), "an accepted message parses");
    for (const auto& piece : message->payload()) {
      payload.append(reinterpret_cast<const char*>(piece.data()), piece.size());
    }
    v1::PushMessage rest;
    LH_CHECK(rest.ParseFromString(std::string(message->rest())), "an accepted rest parses");
    for (const v1::Segment& segment : rest.segments()) {
      segments.push_back(SegmentFromProto(segment));
    }
  }
};

void CheckRefusal(const absl::Status& status) {
  static constexpr absl::string_view kReasons[] = {
      "MALFORMED_SEGMENT", "MALFORMED_CHUNK", "MALFORMED_MESSAGE", "STREAM_TOO_LARGE",
      "MESSAGE_TOO_LARGE", "HASH_MISMATCH",   "STREAM_TRUNCATED"};
  CheckDocumented(status, {absl::StatusCode::kInvalidArgument, absl::StatusCode::kResourceExhausted,
                           absl::StatusCode::kDataLoss});
  const auto info = ErrorInfoOf(status);
  LH_CHECK(info.has_value(), "a refusal has its reason");
  LH_CHECK(std::count(std::begin(kReasons), std::end(kReasons), info->reason) == 1,
           "a reason of the contract");
}

void CheckAccepted(const Brought& verified, const Brought& brought,
                   const StreamDeclaration& declared) {
  LH_CHECK(static_cast<int64_t>(verified.payload.size()) == declared.payload_bytes,
           "what was declared");
  LH_CHECK(verified.payload == brought.payload, "the bytes of the messages");
  LH_CHECK(verified.segments == brought.segments, "the segments of the messages");
  int64_t blocks_declared = 0, blocks_brought = 0;
  for (const BlockRange& range : declared.blocks) blocks_declared += range.count;
  for (const BlockRange& range : BlocksOf(verified.segments)) blocks_brought += range.count;
  LH_CHECK(blocks_declared == blocks_brought, "all blocks, once");
}

StreamDeclaration Declare(FuzzInput& input, int64_t elements, int64_t payload_bytes) {
  StreamDeclaration declaration{.fragment = 1};
  const int ranges = input.Byte() % 5;
  for (int i = 0; i < ranges; ++i) {
    const auto first = input.Take<int64_t>(), count = input.Take<int64_t>();
    declaration.blocks.push_back({first, count});
  }
  if (ranges == 0) declaration.blocks = {{0, CeilDiv(elements, kBlockElements)}};
  declaration.payload_bytes =
      CheckedAdd(payload_bytes, input.Take<int64_t>()).value_or(payload_bytes);
  return declaration;
}

void RunStream(FuzzInput& input) {
  const int64_t elements = input.Take<uint32_t>() % kElementsMax + 1;
  const uint8_t codec = input.Byte();
  const int segment_blocks = input.Choice(1, 255), chunk_segments = input.Choice(1, 255);
  const int64_t payload_bytes = PayloadBytes(codec, elements);
  const StreamDeclaration declaration = Declare(input, elements, payload_bytes);
  const SegmentBytes bytes_of = [codec](int32_t n) { return PayloadBytes(codec, n); };
  absl::StatusOr<ChunkVerifier> verifier =
      ChunkVerifier::Create(declaration, {.fragment_elements = elements,
                                          .payload_bytes_max = payload_bytes,
                                          .segment_bytes = bytes_of});
  if (!verifier.ok()) {
    return CheckDocumented(verifier.status(), {absl::StatusCode::kInvalidArgument,
                                               absl::StatusCode::kResourceExhausted});
  }
  const std::vector<std::string> honest =
      HonestChunks(elements, codec, segment_blocks, chunk_segments);
  WireBytes wire;
  Brought brought, verified;
  std::string message;
  for (int i = 0; i < kStepsMax && NextMessage(input, honest, &message); ++i) {
    const grpc::ByteBuffer buffer = SlicedBuffer(message, message.size() % 3 * 4096);
    const absl::StatusOr<CodedChunk> chunk = verifier->Verify(buffer, wire);
    if (!chunk.ok()) return CheckRefusal(chunk.status());
    brought.Add(buffer);
    const absl::Status each =
        ForEachSegment(*chunk, bytes_of, [&](const SegmentRef& segment, auto payload) {
          verified.segments.push_back(segment);
          verified.payload.append(reinterpret_cast<const char*>(payload.data()), payload.size());
          return absl::OkStatus();
        });
    LH_CHECK(each.ok(), "nothing above fails");
  }
  const absl::Status finished = verifier->Finish();
  if (!finished.ok()) return CheckRefusal(finished);
  CheckAccepted(verified, brought, declaration);
}

}  // namespace

std::vector<Seed> Seeds() {
  const auto stream = [](uint32_t elements, int codec, int segment_blocks, int chunk_segments) {
    FuzzWriter seed;
    seed.Put(elements - 1).Byte(codec).Byte(segment_blocks - 1).Byte(chunk_segments - 1);
    return seed;
  };
  FuzzWriter whole = stream(1000, 0, 2, 2), coded = stream(70000, 1, 200, 1),
             part = stream(1000, 0, 2, 2), changed = stream(1000, 1, 8, 1);
  whole.Byte(0).Put(int64_t{0}).Byte(kSend).Byte(0).Byte(kSend).Byte(1).Byte(kEnd);
  coded.Byte(0).Put(int64_t{0});
  for (int i = 0; i < 4; ++i) coded.Byte(kSend).Byte(i);
  part.Byte(1).Put(int64_t{0}).Put(int64_t{4}).Put(int64_t{-4000 + 4 * 512});
  part.Byte(kSend).Byte(0).Byte(kEnd);
  changed.Byte(0).Put(int64_t{0}).Byte(kSendChanged).Byte(0).Byte(0).Put(uint16_t{4}).Byte(1);
  return {{"whole", whole.Take()},
          {"two_tiles", coded.Take()},
          {"first_blocks", part.Take()},
          {"changed", changed.Take()}};
}

int TestOneInput(const uint8_t* data, size_t size) {
  FuzzInput input(data, size);
  RunStream(input);
  return 0;
}

}  // namespace longhaul::fuzz::bulk_stream_fuzz

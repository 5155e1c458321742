#include "common/rpc/fragment_stream.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/io/digest.h"
#include "common/rpc/block_proto.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/wire_format_lite.h"
#include "grpcpp/support/proto_buffer_reader.h"
#include "longhaul/v1/sync.pb.h"

namespace longhaul {
namespace {

using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedInputStream;
using google::protobuf::io::CodedOutputStream;

// PullMessage has the same field numbers.
static_assert(v1::PullMessage::kPayloadFieldNumber == int{v1::PushMessage::kPayloadFieldNumber});
static_assert(v1::PullMessage::kSegmentsFieldNumber == int{v1::PushMessage::kSegmentsFieldNumber});
static_assert(v1::PullMessage::kPayloadHashFieldNumber ==
              int{v1::PushMessage::kPayloadHashFieldNumber});

// A slice of the owner's memory. When the last slice ends, it drops its share of the owner.
grpc::Slice SharedSlice(absl::Span<const uint8_t> bytes, const std::shared_ptr<const void>& owner) {
  const auto drop = [](void* share) { delete static_cast<std::shared_ptr<const void>*>(share); };
  return grpc::Slice(const_cast<uint8_t*>(bytes.data()), bytes.size(), drop,
                     new std::shared_ptr<const void>(owner));
}

uint32_t TagOf(int payload_field) {
  return WireFormatLite::MakeTag(payload_field, WireFormatLite::WIRETYPE_LENGTH_DELIMITED);
}

// What comes before the payload: the rest, and the payload's tag and length.
grpc::Slice HeadOf(const google::protobuf::MessageLite& rest, int payload_field,
                   int64_t payload_bytes) {
  std::string head = rest.SerializeAsString();
  uint8_t tail[10];
  uint8_t* end = CodedOutputStream::WriteTagToArray(TagOf(payload_field), tail);
  end = CodedOutputStream::WriteVarint32ToArray(static_cast<uint32_t>(payload_bytes), end);
  head.append(reinterpret_cast<const char*>(tail), end - tail);
  return grpc::Slice(head);
}

// Adds a piece, or extends the last one if the two are neighbours in memory.
void AppendPiece(absl::Span<const uint8_t> piece, std::vector<absl::Span<const uint8_t>>& pieces) {
  if (!pieces.empty() && pieces.back().data() + pieces.back().size() == piece.data()) {
    pieces.back() = {pieces.back().data(), pieces.back().size() + piece.size()};
  } else {
    pieces.push_back(piece);
  }
}

grpc::ByteBuffer ChunkOf(v1::PushMessage& rest, absl::Span<const absl::Span<const uint8_t>> pieces,
                         int64_t payload_bytes, const std::shared_ptr<const void>& owner) {
  rest.set_payload_hash(Hash64(pieces));
  std::vector<grpc::Slice> slices;
  slices.reserve(1 + pieces.size());
  slices.push_back(HeadOf(rest, v1::PushMessage::kPayloadFieldNumber, payload_bytes));
  for (const auto& piece : pieces) slices.push_back(SharedSlice(piece, owner));
  return grpc::ByteBuffer(slices.data(), slices.size());
}

absl::Status NotAMessage() {
  return absl::InvalidArgumentError("a stream message is not a valid protobuf message");
}

}  // namespace

grpc::ByteBuffer SerializeToByteBuffer(const google::protobuf::MessageLite& message) {
  const grpc::Slice slice(message.SerializeAsString());
  return grpc::ByteBuffer(&slice, 1);
}

absl::Status ParseFromByteBuffer(const grpc::ByteBuffer& buffer,
                                 google::protobuf::MessageLite* message) {
  if (static_cast<int64_t>(buffer.Length()) > kRestBytesMax) {
    return absl::ResourceExhaustedError(absl::StrCat("a request of ", buffer.Length(), " bytes"));
  }
  grpc::ByteBuffer shared = buffer;
  grpc::ProtoBufferReader reader(&shared);
  if (!reader.status().ok() || !message->ParseFromZeroCopyStream(&reader)) return NotAMessage();
  return absl::OkStatus();
}

grpc::ByteBuffer MessageWithPayload(const google::protobuf::MessageLite& rest, int payload_field,
                                    FilePiece payload) {
  const auto drop = [](void* bytes) { delete[] static_cast<char*>(bytes); };
  const size_t size = payload.size;
  char* const bytes = payload.bytes.release();
  const grpc::Slice slices[] = {HeadOf(rest, payload_field, static_cast<int64_t>(size)),
                                grpc::Slice(bytes, size, drop, bytes)};
  return grpc::ByteBuffer(slices, 2);
}

grpc::ByteBuffer ChunkMessage(CodedBlocks chunk) {
  v1::PushMessage rest;
  for (const SegmentRef& segment : chunk.segments) SegmentToProto(segment, rest.add_segments());
  const auto owner = std::make_shared<const CodedBlocks>(std::move(chunk));
  const absl::Span<const uint8_t> payload = owner->payload.span();
  return ChunkOf(rest, {&payload, 1}, static_cast<int64_t>(payload.size()), owner);
}

ChunkWriter::ChunkWriter(CodedSource source, ChunkSize size)
    : source_(std::move(source)), size_(size) {
  LH_CHECK(source_.segments.size() == source_.payloads.size(), "a payload for each segment");
}

grpc::ByteBuffer ChunkWriter::Next(int64_t* payload_bytes) {
  LH_CHECK(!done(), "no chunk after the last");
  v1::PushMessage rest;
  std::vector<absl::Span<const uint8_t>> pieces;
  int64_t bytes = 0;
  while (!done() && rest.segments_size() < kChunkSegmentsMax) {
    const absl::Span<const uint8_t> payload = source_.payloads[next_];
    LH_CHECK(static_cast<int64_t>(payload.size()) <= kPayloadBytesMax, "a segment fits a chunk");
    if (bytes > 0 && bytes + static_cast<int64_t>(payload.size()) > size_.bytes()) break;
    SegmentToProto(source_.segments[next_], rest.add_segments());
    AppendPiece(payload, pieces);
    bytes += payload.size();
    ++next_;
  }
  size_.Passed();
  *payload_bytes = bytes;
  return ChunkOf(rest, pieces, bytes, source_.owner);
}

absl::StatusOr<IncomingMessage> IncomingMessage::Parse(const grpc::ByteBuffer& message) {
  return Parse(message, v1::PushMessage::kPayloadFieldNumber);
}

absl::StatusOr<IncomingMessage> IncomingMessage::Parse(const grpc::ByteBuffer& message,
                                                       int payload_field) {
  const uint32_t payload_tag = TagOf(payload_field);
  IncomingMessage result;
  result.message_bytes_ = static_cast<int64_t>(message.Length());
  if (!message.Valid() || !message.Dump(&result.slices_).ok()) return NotAMessage();
  grpc::ByteBuffer shared = message;
  grpc::ProtoBufferReader reader(&shared);
  CodedInputStream input(&reader);
  while (true) {
    const int64_t rest_bytes = input.CurrentPosition();
    if (rest_bytes > kRestBytesMax) {
      return absl::ResourceExhaustedError(
          "more than 64 KiB before the payload of a stream message");
    }
    const uint32_t tag = input.ReadTag();
    if (tag == payload_tag) {
      uint32_t payload_bytes = 0;
      if (!input.ReadVarint32(&payload_bytes)) return NotAMessage();
      if (payload_bytes > kPayloadBytesMax) {
        return absl::ResourceExhaustedError(
            absl::StrCat("a chunk with a payload of ", payload_bytes, " bytes"));
      }
      const int64_t payload_begin = input.CurrentPosition();
      if (payload_begin + payload_bytes != result.message_bytes_) {
        return absl::InvalidArgumentError("a payload that does not end with its message");
      }
      result.Cut(rest_bytes, payload_begin);
      return result;
    }
    if (tag == 0) {
      if (rest_bytes != result.message_bytes_) return NotAMessage();
      result.Cut(rest_bytes, rest_bytes);
      return result;
    }
    if (!WireFormatLite::SkipField(&input, tag)) return NotAMessage();
  }
}

void IncomingMessage::Cut(int64_t rest_bytes, int64_t payload_begin) {
  rest_.reserve(rest_bytes);
  // Where the slice begins in the message.
  int64_t begin = 0;
  for (const grpc::Slice& slice : slices_) {
    const int64_t size = static_cast<int64_t>(slice.size());
    if (begin < rest_bytes) {
      rest_.append(reinterpret_cast<const char*>(slice.begin()),
                   std::min(size, rest_bytes - begin));
    }
    const int64_t skip = std::max(int64_t{0}, payload_begin - begin);
    if (skip < size) payload_.emplace_back(slice.begin() + skip, size - skip);
    begin += size;
  }
  payload_bytes_ = message_bytes_ - payload_begin;
}

}  // namespace longhaul

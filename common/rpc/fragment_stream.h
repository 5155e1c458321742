// Messages of the bulk streams, without copies. On the wire each is a valid PushMessage or
// PullMessage. The first has only the `header`. The others are chunks, whose `payload` is the last
// field:
//
//   rest (<= 64 KiB): segments = 2, payload_hash = 3 | tag 0x7A | length | payload (<= 1 MiB)
//   '---------------- one small slice -------------------------' '- slices of its owner -'
//
// A sender serializes the rest and references the payload. A receiver parses the rest and reads the
// payload in place. Both messages have the same field numbers in a chunk, so one code serves both.
// Unknown fields in the rest are skipped.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/blocks/coded_blocks.h"
#include "common/io/file_pieces.h"
#include "common/rpc/chunk_size.h"
#include "google/protobuf/message_lite.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/slice.h"

namespace longhaul {

inline constexpr int64_t kRestBytesMax = 64 << 10;
// Each has at most 30 bytes, so all fit into kRestBytesMax together with the hash.
inline constexpr int kChunkSegmentsMax = 2048;

// Convert small messages (a header, a request, a response) to and from one buffer, with copies.
grpc::ByteBuffer SerializeToByteBuffer(const google::protobuf::MessageLite& message);
// INVALID_ARGUMENT: does not parse. RESOURCE_EXHAUSTED: larger than kRestBytesMax.
absl::Status ParseFromByteBuffer(const grpc::ByteBuffer& buffer,
                                 google::protobuf::MessageLite* message);

// A message with the fields of `rest`, and with these bytes, which it takes over, as its last
// field.
grpc::ByteBuffer MessageWithPayload(const google::protobuf::MessageLite& rest, int payload_field,
                                    FilePiece payload);

// A chunk of these segments, which takes their bytes over. At most kChunkSegmentsMax segments with
// kPayloadBytesMax bytes.
grpc::ByteBuffer ChunkMessage(CodedBlocks chunk);

// Cuts a source into chunks. Not thread-safe.
class ChunkWriter {
 public:
  explicit ChunkWriter(CodedSource source, ChunkSize size = {});
  bool done() const { return next_ == source_.segments.size(); }
  // Returns the next chunk. Its slices share source.owner. Requires !done(). `payload_bytes`
  // receives the size of its payload.
  grpc::ByteBuffer Next(int64_t* payload_bytes);

 private:
  CodedSource source_;
  ChunkSize size_;
  size_t next_ = 0;
};

// A received message, divided where its payload begins. The views point into the message's own
// slices. The payload is the field of that number, of type bytes: by default that of a PushMessage.
class IncomingMessage {
 public:
  // INVALID_ARGUMENT: not a protobuf message, or the payload is not its last field.
  // RESOURCE_EXHAUSTED: rest or payload is larger than allowed.
  static absl::StatusOr<IncomingMessage> Parse(const grpc::ByteBuffer& message);
  static absl::StatusOr<IncomingMessage> Parse(const grpc::ByteBuffer& message, int payload_field);
  // Not copied: a short slice contains its bytes, so views into it would become invalid.
  IncomingMessage(IncomingMessage&&) = default;
  IncomingMessage& operator=(IncomingMessage&&) = default;

  absl::string_view rest() const { return rest_; }
  absl::Span<const absl::Span<const uint8_t>> payload() const { return payload_; }
  int64_t payload_bytes() const { return payload_bytes_; }
  int64_t message_bytes() const { return message_bytes_; }

 private:
  IncomingMessage() = default;
  void Cut(int64_t rest_bytes, int64_t payload_begin);

  std::vector<grpc::Slice> slices_;
  std::string rest_;
  std::vector<absl::Span<const uint8_t>> payload_;
  int64_t payload_bytes_ = 0;
  int64_t message_bytes_ = 0;
};

}  // namespace longhaul

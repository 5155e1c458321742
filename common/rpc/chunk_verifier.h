// Checks the chunks of one stream as they come: bounds and order of the segments, and the hash of
// each payload. Nothing is copied or kept: a chunk's bytes stay in the message.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/blocks/coded_blocks.h"
#include "common/rpc/fragment_stream.h"
#include "common/rpc/wire_bytes.h"
#include "longhaul/v1/sync.pb.h"

namespace longhaul {

// The receiver's knowledge of a fragment, and its limits for a stream. Determined when the header
// has come.
struct StreamLimits {
  int64_t fragment_elements = 0;
  // For the whole stream.
  int64_t payload_bytes_max = 0;
  // For the codec that the header names.
  SegmentBytes segment_bytes;
};

// What the stream's header declares.
struct StreamDeclaration {
  int32_t fragment = 0;
  std::vector<BlockRange> blocks;
  int64_t payload_bytes = 0;
};

// Errors carry an ErrorInfo {reason, fragment, block (the next one expected), offset (in the
// stream's payload)}:
//   INVALID_ARGUMENT    MALFORMED_SEGMENT: blocks out of order, missing, overlapping, outside the
//                       declared ranges or across a tile, or not of the coded size;
//                       MALFORMED_CHUNK: a header or nothing in it; MALFORMED_MESSAGE
//   RESOURCE_EXHAUSTED  STREAM_TOO_LARGE: more than declared or allowed; MESSAGE_TOO_LARGE
//   DATA_LOSS           HASH_MISMATCH; STREAM_TRUNCATED (from Finish)
// After an error the object must not be used any more. Not thread-safe.
class ChunkVerifier {
 public:
  // INVALID_ARGUMENT (with field violations): see CheckBlocksField, or payload_bytes is not
  // positive. RESOURCE_EXHAUSTED: more payload than allowed.
  static absl::StatusOr<ChunkVerifier> Create(StreamDeclaration declaration, StreamLimits limits);

  // Verifies one message of the stream after the header. Its bytes are added to `wire`, even if it
  // is refused.
  absl::StatusOr<CodedChunk> Verify(const grpc::ByteBuffer& message, WireBytes& wire);
  // Call when the stream has ended: whether all blocks came.
  absl::Status Finish() const;

 private:
  ChunkVerifier(StreamDeclaration declaration, StreamLimits limits);
  absl::StatusOr<CodedChunk> VerifyChunk(IncomingMessage message);
  // Checks the order and sizes of the segments, and moves on to the block after them. Returns their
  // coded bytes.
  absl::StatusOr<int64_t> TakeSegments(const v1::PushMessage& rest,
                                       std::vector<SegmentRef>* segments);
  absl::Status CheckSegment(const v1::Segment& segment) const;
  void Advance(const v1::Segment& segment);
  absl::Status Error(absl::StatusCode code, absl::string_view reason, int64_t block,
                     absl::string_view what) const;

  StreamDeclaration declaration_;
  StreamLimits limits_;
  // Index in declaration_.blocks of the range that is being filled.
  size_t range_ = 0;
  // The block with which the next segment must begin.
  int64_t next_block_ = 0;
  // Payload bytes that were verified.
  int64_t offset_ = 0;
};

}  // namespace longhaul

#include "common/rpc/chunk_verifier.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/checked_math.h"
#include "common/base/status_macros.h"
#include "common/io/digest.h"
#include "common/rpc/block_proto.h"
#include "common/rpc/status_details.h"

namespace longhaul {
namespace {

int64_t BlockCount(int32_t elements) { return CeilDiv(elements, kBlockElements); }

}  // namespace

absl::StatusOr<ChunkVerifier> ChunkVerifier::Create(StreamDeclaration declaration,
                                                    StreamLimits limits) {
  LH_RETURN_IF_ERROR(CheckBlocksField(declaration.blocks, limits.fragment_elements));
  if (declaration.payload_bytes <= 0) {
    return BadRequestError({{"payload_bytes", "must be positive"}});
  }
  ChunkVerifier verifier(std::move(declaration), std::move(limits));
  if (verifier.declaration_.payload_bytes > verifier.limits_.payload_bytes_max) {
    return verifier.Error(absl::StatusCode::kResourceExhausted, "STREAM_TOO_LARGE",
                          verifier.next_block_,
                          absl::StrCat("at most ", verifier.limits_.payload_bytes_max,
                                       " bytes are allowed, the header declares ",
                                       verifier.declaration_.payload_bytes));
  }
  return verifier;
}

ChunkVerifier::ChunkVerifier(StreamDeclaration declaration, StreamLimits limits)
    : declaration_(std::move(declaration)),
      limits_(std::move(limits)),
      next_block_(declaration_.blocks.front().first) {}

absl::StatusOr<CodedChunk> ChunkVerifier::Verify(const grpc::ByteBuffer& message, WireBytes& wire) {
  absl::StatusOr<IncomingMessage> chunk = IncomingMessage::Parse(message);
  wire.AddMessage(message.Length(), chunk.ok() ? chunk->payload_bytes() : 0);
  if (chunk.ok()) return VerifyChunk(*std::move(chunk));
  const bool too_large = absl::IsResourceExhausted(chunk.status());
  return Error(chunk.status().code(), too_large ? "MESSAGE_TOO_LARGE" : "MALFORMED_MESSAGE",
               next_block_, chunk.status().message());
}

absl::StatusOr<CodedChunk> ChunkVerifier::VerifyChunk(IncomingMessage message) {
  v1::PushMessage rest;
  if (!rest.ParseFromArray(message.rest().data(), static_cast<int>(message.rest().size())) ||
      rest.has_header() || rest.segments_size() == 0 || message.payload_bytes() == 0) {
    return Error(absl::StatusCode::kInvalidArgument, "MALFORMED_CHUNK", next_block_,
                 "a chunk has segments and a payload and no header");
  }
  const int64_t first_block = next_block_;
  CodedChunk chunk;
  LH_ASSIGN_OR_RETURN(chunk.payload_bytes, TakeSegments(rest, &chunk.segments));
  if (chunk.payload_bytes != message.payload_bytes()) {
    return Error(absl::StatusCode::kInvalidArgument, "MALFORMED_SEGMENT", first_block,
                 absl::StrCat("segments of ", chunk.payload_bytes,
                              " coded bytes with a payload of ", message.payload_bytes()));
  }
  if (chunk.payload_bytes > declaration_.payload_bytes - offset_) {
    return Error(absl::StatusCode::kResourceExhausted, "STREAM_TOO_LARGE", first_block,
                 absl::StrCat("more than the declared ", declaration_.payload_bytes, " bytes"));
  }
  if (Hash64(message.payload()) != rest.payload_hash()) {
    return Error(absl::StatusCode::kDataLoss, "HASH_MISMATCH", first_block,
                 "the payload does not have its hash");
  }
  offset_ += chunk.payload_bytes;
  chunk.pieces.assign(message.payload().begin(), message.payload().end());
  chunk.owner = std::make_shared<const IncomingMessage>(std::move(message));
  return chunk;
}

absl::StatusOr<int64_t> ChunkVerifier::TakeSegments(const v1::PushMessage& rest,
                                                    std::vector<SegmentRef>* segments) {
  int64_t coded_bytes = 0;
  segments->reserve(rest.segments_size());
  for (const v1::Segment& segment : rest.segments()) {
    LH_RETURN_IF_ERROR(CheckSegment(segment));
    coded_bytes += limits_.segment_bytes(segment.elements());
    segments->push_back(SegmentFromProto(segment));
    Advance(segment);
  }
  return coded_bytes;
}

absl::Status ChunkVerifier::Finish() const {
  if (range_ < declaration_.blocks.size()) {
    return Error(absl::StatusCode::kDataLoss, "STREAM_TRUNCATED", next_block_,
                 "the stream ended early");
  }
  if (offset_ == declaration_.payload_bytes) return absl::OkStatus();
  return Error(absl::StatusCode::kInvalidArgument, "MALFORMED_SEGMENT", next_block_,
               absl::StrCat(declaration_.payload_bytes, " bytes were declared"));
}

absl::Status ChunkVerifier::CheckSegment(const v1::Segment& segment) const {
  const auto refuse = [this](absl::string_view why) {
    return Error(absl::StatusCode::kInvalidArgument, "MALFORMED_SEGMENT", next_block_, why);
  };
  if (range_ == declaration_.blocks.size()) return refuse("a segment after the declared blocks");
  if (segment.first_block() < next_block_) return refuse("a segment that was already received");
  if (segment.first_block() > next_block_) return refuse("a segment is missing");
  if (segment.elements() < 1 || segment.elements() > kTileElements) {
    return refuse(absl::StrCat("a segment of ", segment.elements(), " elements"));
  }
  const int64_t end = next_block_ + BlockCount(segment.elements());
  if (end > declaration_.blocks[range_].end()) return refuse("a segment leaves its block range");
  if (next_block_ / kTileBlocks != (end - 1) / kTileBlocks) {
    return refuse("a segment crosses a tile");
  }
  // `end` is within the fragment's blocks. So only the fragment's last block can be short, and it
  // must have exactly the missing elements less.
  const int64_t last_element = std::min(end * kBlockElements, limits_.fragment_elements);
  if (next_block_ * kBlockElements + segment.elements() != last_element) {
    return refuse(
        absl::StrCat("a segment of ", segment.elements(), " elements is not whole blocks"));
  }
  return absl::OkStatus();
}

void ChunkVerifier::Advance(const v1::Segment& segment) {
  next_block_ += BlockCount(segment.elements());
  if (next_block_ < declaration_.blocks[range_].end()) return;
  ++range_;
  if (range_ < declaration_.blocks.size()) next_block_ = declaration_.blocks[range_].first;
}

absl::Status ChunkVerifier::Error(absl::StatusCode code, absl::string_view reason, int64_t block,
                                  absl::string_view what) const {
  const std::string message = absl::StrCat("fragment ", declaration_.fragment, ", block ", block,
                                           ", payload offset ", offset_, ": ", what);
  return WithErrorInfo(absl::Status(code, message),
                       {std::string(reason),
                        {{"fragment", absl::StrCat(declaration_.fragment)},
                         {"block", absl::StrCat(block)},
                         {"offset", absl::StrCat(offset_)}}});
}

}  // namespace longhaul

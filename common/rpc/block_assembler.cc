#define XXH_INLINE_ALL
#include "common/rpc/block_assembler.h"

#include <xxhash.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/checked_math.h"
#include "common/base/status_macros.h"
#include "common/rpc/block_proto.h"
#include "common/rpc/status_details.h"

namespace longhaul {
namespace {

int64_t BlockCount(int32_t elements) { return CeilDiv(elements, kBlockElements); }

}  // namespace

absl::StatusOr<BlockAssembler> BlockAssembler::Create(StreamDeclaration declaration,
                                                      StreamLimits limits) {
  LH_RETURN_IF_ERROR(CheckBlocks(declaration.blocks, limits.fragment_elements));
  if (declaration.payload_bytes <= 0) {
    return BadRequestError({{"payload_bytes", "must be positive"}});
  }
  BlockAssembler assembler(std::move(declaration), std::move(limits));
  if (assembler.declaration_.payload_bytes > assembler.limits_.payload_bytes_max) {
    return assembler.Error(absl::StatusCode::kResourceExhausted, "STREAM_TOO_LARGE",
                           assembler.next_block_,
                           absl::StrCat("at most ", assembler.limits_.payload_bytes_max,
                                        " bytes are allowed, the header declares ",
                                        assembler.declaration_.payload_bytes));
  }
  return assembler;
}

BlockAssembler::BlockAssembler(StreamDeclaration declaration, StreamLimits limits)
    : declaration_(std::move(declaration)),
      limits_(std::move(limits)),
      next_block_(declaration_.blocks.front().first) {}

absl::Status BlockAssembler::Add(const grpc::ByteBuffer& message, WireBytes& wire) {
  const absl::StatusOr<IncomingMessage> chunk = IncomingMessage::Parse(message);
  wire.AddMessage(message.Length(), chunk.ok() ? chunk->payload_bytes() : 0);
  if (chunk.ok()) return AddChunk(*chunk);
  const bool too_large = absl::IsResourceExhausted(chunk.status());
  return Error(chunk.status().code(), too_large ? "MESSAGE_TOO_LARGE" : "MALFORMED_MESSAGE",
               next_block_, chunk.status().message());
}

absl::Status BlockAssembler::AddChunk(const IncomingMessage& chunk) {
  v1::PushMessage rest;
  if (!rest.ParseFromArray(chunk.rest().data(), static_cast<int>(chunk.rest().size())) ||
      rest.has_header() || rest.segments_size() == 0 || chunk.payload_bytes() == 0) {
    return Error(absl::StatusCode::kInvalidArgument, "MALFORMED_CHUNK", next_block_,
                 "a chunk has segments and a payload and no header");
  }
  const int64_t first_block = next_block_;
  int64_t coded_bytes = 0;
  for (const v1::Segment& segment : rest.segments()) {
    LH_RETURN_IF_ERROR(CheckSegment(segment));
    coded_bytes += limits_.segment_bytes(segment.elements());
    blocks_.segments.push_back(SegmentFromProto(segment));
    Advance(segment);
  }
  if (coded_bytes != chunk.payload_bytes()) {
    return Error(absl::StatusCode::kInvalidArgument, "MALFORMED_SEGMENT", first_block,
                 absl::StrCat("segments of ", coded_bytes, " coded bytes with a payload of ",
                              chunk.payload_bytes()));
  }
  if (coded_bytes > declaration_.payload_bytes - offset_) {
    return Error(absl::StatusCode::kResourceExhausted, "STREAM_TOO_LARGE", first_block,
                 absl::StrCat("more than the declared ", declaration_.payload_bytes, " bytes"));
  }
  if (blocks_.payload.size() == 0) blocks_.payload = AlignedBuffer(declaration_.payload_bytes);
  if (!CopyPayload(chunk, rest.payload_hash())) {
    return Error(absl::StatusCode::kDataLoss, "HASH_MISMATCH", first_block,
                 "the payload does not have its hash");
  }
  offset_ += coded_bytes;
  return absl::OkStatus();
}

absl::StatusOr<CodedBlocks> BlockAssembler::Finish() && {
  if (range_ < declaration_.blocks.size()) {
    return Error(absl::StatusCode::kDataLoss, "STREAM_TRUNCATED", next_block_,
                 "the stream ended early");
  }
  if (offset_ != declaration_.payload_bytes) {
    return Error(absl::StatusCode::kInvalidArgument, "MALFORMED_SEGMENT", next_block_,
                 absl::StrCat(declaration_.payload_bytes, " bytes were declared"));
  }
  return std::move(blocks_);
}

absl::Status BlockAssembler::CheckSegment(const v1::Segment& segment) const {
  const auto refuse = [this](absl::string_view why) {
    return Error(absl::StatusCode::kInvalidArgument, "MALFORMED_SEGMENT", next_block_, why);
  };
  if (range_ == declaration_.blocks.size()) return refuse("a segment after the declared blocks");
  if (segment.first_block() < next_block_) return refuse("a segment that came already");
  if (segment.first_block() > next_block_) return refuse("a segment is missing");
  if (segment.elements() < 1 || segment.elements() > kTileElements) {
    return refuse(absl::StrCat("a segment of ", segment.elements(), " elements"));
  }
  const int64_t end = next_block_ + BlockCount(segment.elements());
  if (end > declaration_.blocks[range_].end()) return refuse("a segment leaves its block range");
  if (next_block_ / kTileBlocks != (end - 1) / kTileBlocks) {
    return refuse("a segment crosses a tile");
  }
  // The end is within the fragment's blocks, so only its last block can be short, and must be
  // exactly so.
  const int64_t last_element = std::min(end * kBlockElements, limits_.fragment_elements);
  if (next_block_ * kBlockElements + segment.elements() != last_element) {
    return refuse(
        absl::StrCat("a segment of ", segment.elements(), " elements is no whole blocks"));
  }
  return absl::OkStatus();
}

void BlockAssembler::Advance(const v1::Segment& segment) {
  next_block_ += BlockCount(segment.elements());
  if (next_block_ < declaration_.blocks[range_].end()) return;
  ++range_;
  if (range_ < declaration_.blocks.size()) next_block_ = declaration_.blocks[range_].first;
}

bool BlockAssembler::CopyPayload(const IncomingMessage& chunk, uint64_t hash) {
  constexpr size_t kStripeBytes = 32 << 10;  // Hashed and copied while it is in the first cache.
  XXH3_state_t state;
  XXH3_64bits_reset(&state);
  uint8_t* to = blocks_.payload.data() + offset_;
  for (absl::Span<const uint8_t> piece : chunk.payload()) {
    while (!piece.empty()) {
      const absl::Span<const uint8_t> stripe = piece.subspan(0, kStripeBytes);
      XXH3_64bits_update(&state, stripe.data(), stripe.size());
      std::memcpy(to, stripe.data(), stripe.size());
      to += stripe.size();
      piece.remove_prefix(stripe.size());
    }
  }
  return XXH3_64bits_digest(&state) == hash;
}

absl::Status BlockAssembler::Error(absl::StatusCode code, absl::string_view reason, int64_t block,
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

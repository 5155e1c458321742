// Helpers for the tests of bulk streams: coded blocks with known bytes, functions that take
// messages apart and put them together, and a SyncService that shows how the raw handlers are used.
#pragma once

#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "common/base/check.h"
#include "common/blocks/coded_blocks.h"
#include "common/rpc/fragment_server.h"
#include "common/rpc/fragment_stream.h"
#include "longhaul/v1/sync.grpc.pb.h"
#include "longhaul/v1/sync.pb.h"

namespace longhaul {

// A codec with four bytes for each element.
inline int64_t FourBytesEach(int32_t elements) { return 4 * int64_t{elements}; }

// The blocks, with payload bytes that depend on their place.
inline std::shared_ptr<CodedBlocks> MakeBlocks(const std::vector<BlockRange>& blocks,
                                               int64_t fragment_elements) {
  auto coded = std::make_shared<CodedBlocks>();
  coded->segments = CutSegments(blocks, fragment_elements);
  int64_t bytes = 0;
  for (SegmentRef& segment : coded->segments) {
    segment.base_exponent = static_cast<int32_t>(segment.first_block % 100) - 50;
    bytes += FourBytesEach(segment.elements);
  }
  coded->payload = AlignedBuffer(bytes);
  uint64_t state = 88172645463325252u;
  for (uint8_t& byte : coded->payload.span()) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    byte = static_cast<uint8_t>(state >> 56);
  }
  return coded;
}
inline std::shared_ptr<CodedBlocks> MakeFragment(int64_t elements) {
  return MakeBlocks({{0, (elements + kBlockElements - 1) / kBlockElements}}, elements);
}

// The answer to a pull that has these segments, one after another in chunks.
inline PullSource AnswerOf(CodedSource source, v1::PullHeader header = {}) {
  header.set_payload_bytes(source.payload_bytes());
  return {std::move(header), [source = std::move(source), next = size_t{0}]() mutable {
            std::vector<SegmentRef> segments;
            std::vector<uint8_t> bytes;
            for (; next < source.segments.size(); ++next) {
              const absl::Span<const uint8_t> payload = source.payloads[next];
              if (!bytes.empty() && bytes.size() + payload.size() > kPayloadBytesMax) break;
              segments.push_back(source.segments[next]);
              bytes.insert(bytes.end(), payload.begin(), payload.end());
            }
            CodedBlocks chunk{std::move(segments), AlignedBuffer(bytes.size())};
            std::copy(bytes.begin(), bytes.end(), chunk.payload.data());
            return chunk;
          }};
}

inline bool SameBlocks(const CodedBlocks& a, const CodedBlocks& b) {
  return a.segments == b.segments && a.payload.span() == b.payload.span();
}

// Puts the chunks of a stream together, each segment with ForEachSegment.
class ReceivedBlocks {
 public:
  void Add(const CodedChunk& chunk) {
    const absl::Status added = ForEachSegment(
        chunk, FourBytesEach, [this](const SegmentRef& segment, absl::Span<const uint8_t> bytes) {
          segments_.push_back(segment);
          bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
          return absl::OkStatus();
        });
    LH_CHECK(added.ok(), "nothing above fails");
  }
  CodedBlocks Blocks() && {
    CodedBlocks blocks{std::move(segments_), AlignedBuffer(bytes_.size())};
    std::copy(bytes_.begin(), bytes_.end(), blocks.payload.data());
    return blocks;
  }

 private:
  std::vector<SegmentRef> segments_;
  std::vector<uint8_t> bytes_;
};

inline std::string Flat(const grpc::ByteBuffer& buffer) {
  std::vector<grpc::Slice> slices;
  if (!buffer.Dump(&slices).ok()) return "";
  std::string flat;
  for (const grpc::Slice& slice : slices) {
    flat.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  }
  return flat;
}

// Cuts the bytes into slices of at most `slice_bytes`, as a network may bring them.
inline grpc::ByteBuffer ToBuffer(absl::string_view bytes, size_t slice_bytes = 8192) {
  std::vector<grpc::Slice> slices;
  do {
    const absl::string_view piece = bytes.substr(0, slice_bytes);
    slices.emplace_back(piece.data(), piece.size());
    bytes.remove_prefix(piece.size());
  } while (!bytes.empty());
  return grpc::ByteBuffer(slices.data(), slices.size());
}

// The chunks of a source, as flat messages that a test may damage.
inline std::vector<std::string> ChunksOf(std::shared_ptr<const CodedBlocks> blocks) {
  ChunkWriter writer(SourceOf(std::move(blocks), FourBytesEach));
  std::vector<std::string> chunks;
  int64_t payload_bytes = 0;
  while (!writer.done()) chunks.push_back(Flat(writer.Next(&payload_bytes)));
  return chunks;
}

// A chunk after a change of its proto.
inline std::string Edited(const std::string& chunk,
                          const std::function<void(v1::PushMessage&)>& edit) {
  v1::PushMessage message;
  message.ParseFromString(chunk);
  edit(message);
  return message.SerializeAsString();
}

// The test sets the handlers before the server starts, and does not change them while calls are in
// progress.
class TestSyncService
    : public v1::SyncService::WithRawCallbackMethod_PushFragment<
          v1::SyncService::WithRawCallbackMethod_PullFragment<v1::SyncService::Service>> {
 public:
  grpc::ServerReadReactor<grpc::ByteBuffer>* PushFragment(grpc::CallbackServerContext* context,
                                                          grpc::ByteBuffer* response) override {
    return ReceivePush(context, response, push, resources);
  }
  grpc::ServerWriteReactor<grpc::ByteBuffer>* PullFragment(
      grpc::CallbackServerContext* context, const grpc::ByteBuffer* request) override {
    if (on_pull) on_pull(context->peer());
    return SendPull(context, request, pull, resources);
  }

  PushHandler push;
  PullHandler pull;
  // Called at the begin of each pull, with the connection's other end.
  std::function<void(const std::string& peer)> on_pull;
  BulkResources resources;
};

}  // namespace longhaul

// The server's side of the bulk streams. A service derives from SyncService with both raw methods
//   WithRawCallbackMethod_PushFragment<WithRawCallbackMethod_PullFragment<...>>
// and returns ReceivePush / SendPull from them. The reactors own themselves. Each stream has one
// read or write in progress.
//
//   push    read -> verified in place -> on_chunk     gRPC's thread | the executor's
//           '--- the next read, while fewer than two chunks are held ---'
//
//   pull    next -> hashed -> written -> next
//   (executor's thread     | gRPC's)
//
// Nothing of a stream is assembled: a push holds two chunks, whatever its size, and a pull one.
// Admission counts these bytes, and the ranges that a pull asks for, for the pool that the header
// or request names.
//
// Streams share the executor's threads chunk by chunk, and pools take turns there, so there may be
// many more streams than threads, and many streams of one pool do not hold up another's. This gives
// a rule for handlers: they may block, but only for work of a thread outside the executor, or of a
// handler that is being called already; never for something that a later call brings. Then some
// call can always make progress, with any number of threads. A slow handler leaves its own stream
// unread, which delays only its sender.
//
// A stream whose peer makes no progress is ended (stall_watch.h) and gives back its share.
#pragma once

#include <functional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/blocks/coded_blocks.h"
#include "common/rpc/chunk_verifier.h"
#include "common/rpc/executor.h"
#include "common/rpc/stall_watch.h"
#include "common/rpc/stream_admission.h"
#include "common/rpc/wire_bytes.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/server_callback.h"
#include "longhaul/v1/sync.pb.h"

namespace longhaul {

// Shared by the bulk streams of a server. Pushes and pulls may have one admission or two. The
// objects outlive the server's shutdown.
struct BulkResources {
  Executor* executor = nullptr;
  StreamAdmission* admission = nullptr;
  // A call without a deadline, or with a later one, is refused with INVALID_ARGUMENT, so that no
  // stalled peer holds a buffer for ever.
  absl::Duration deadline_max = absl::Hours(1);
  StallLimits stall;
};

struct PushHandler {
  // Decides whether the stream may come, and returns its limits. Called on a gRPC thread before
  // anything is read; must return at once.
  std::function<absl::StatusOr<StreamLimits>(const v1::PushHeader&)> on_header;
  // Receives some of the blocks, verified and in order, one call at a time, on the executor; may
  // block. The chunk's bytes are freed with its owner. Blocks that were taken stay taken, however
  // the stream ends, unless this or on_complete failed. An error ends the stream.
  std::function<absl::Status(const v1::PushHeader&, CodedChunk)> on_chunk;
  // Called when all blocks were taken, on the executor; may block.
  std::function<absl::StatusOr<v1::PushResponse>(const v1::PushHeader&)> on_complete;
  // Optional. Called in its place if the stream broke, perhaps before anything was accepted; not if
  // on_header or on_chunk refused. On the executor; may block.
  std::function<void()> on_broken = nullptr;
  // Optional, for metrics: called once, at the very end of the stream, however it ended.
  std::function<void(const absl::Status&, const WireBytes&)> on_end = nullptr;
};

// Errors of the stream itself: those of IncomingMessage, ChunkVerifier and StreamAdmission;
// INVALID_ARGUMENT (MISSING_HEADER, MISSING_DEADLINE); RESOURCE_EXHAUSTED with RetryInfo if the
// executor's queue is full; DEADLINE_EXCEEDED (NO_PROGRESS). Chunks before the error were given to
// the handler.
grpc::ServerReadReactor<grpc::ByteBuffer>* ReceivePush(grpc::CallbackServerContext* context,
                                                       grpc::ByteBuffer* response,
                                                       PushHandler handler,
                                                       const BulkResources& resources);

// The answer to a pull.
struct PullSource {
  // `payload_bytes` is the sum of all chunks.
  v1::PullHeader header;
  // Returns the next segments of the requested blocks, with at most kPayloadBytesMax bytes and
  // kChunkSegmentsMax segments, at least one. Called on the executor, one call at a time, each when
  // the chunk before it was written, until header.payload_bytes have come. May block. An error ends
  // the stream.
  std::function<absl::StatusOr<CodedBlocks>()> next;
};
struct PullHandler {
  // Optional: decides whether the stream may come. Called on a gRPC thread before it counts for the
  // pool that the request names; must return at once.
  std::function<absl::Status(const v1::PullRequest&)> on_admit = nullptr;
  // Called on the executor; may block. The request's `blocks` are not checked yet
  // (CheckBlocksField).
  std::function<absl::StatusOr<PullSource>(const v1::PullRequest&)> on_request;
  // As in PushHandler.
  std::function<void(const absl::Status&, const WireBytes&)> on_end = nullptr;
};

grpc::ServerWriteReactor<grpc::ByteBuffer>* SendPull(grpc::CallbackServerContext* context,
                                                     const grpc::ByteBuffer* request,
                                                     PullHandler handler,
                                                     const BulkResources& resources);

}  // namespace longhaul

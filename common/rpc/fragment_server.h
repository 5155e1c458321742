// The server's side of the bulk streams. A service derives from SyncService with both raw methods
//   WithRawCallbackMethod_PushFragment<WithRawCallbackMethod_PullFragment<...>>
// and returns ReceivePush / SendPull from them; the reactors own themselves. One read or write is
// in flight per stream.
//
//   push    read -> verified in place -> on_chunk     gRPC's thread | the executor's
//           '--- the next read, while fewer than two chunks are held ---'
//
// Nothing of a stream is assembled: a push holds two chunks, whatever its size. It is admitted by
// these bytes, for the pool that its header names; a pull by the one message in flight (what the
// handler's source keeps alive is the handler's).
//
// Streams share the executor's threads chunk by chunk, so there may be many more of them. Hence the
// rule for handlers: they may block, but only for what a thread outside the executor does, or a
// handler that is being called already; never for what a later call brings. Then some call can
// always go on, however few the threads. A handler that is slow leaves its own stream unread, which
// holds up its sender alone.
//
// A stream whose peer stands still is ended (stall_watch.h) and gives back its share.
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

// What the bulk streams of a server share; pushes and pulls may have one admission or two. The
// objects outlive the server's shutdown.
struct BulkResources {
  Executor* executor = nullptr;
  StreamAdmission* admission = nullptr;
  // A call without a deadline, or with one further away, is refused with INVALID_ARGUMENT: no
  // stalled peer holds a buffer for good.
  absl::Duration deadline_max = absl::Hours(1);
  StallLimits stall;
};

struct PushHandler {
  // Whether the stream may come, and what it may bring. Called on a gRPC thread before anything is
  // read: short.
  std::function<absl::StatusOr<StreamLimits>(const v1::PushHeader&)> on_header;
  // Some of the blocks, verified; in order, one call at a time, on the executor; may block. The
  // chunk's bytes are freed with its owner. What was taken stays taken, however the stream ends. An
  // error ends the stream.
  std::function<absl::Status(const v1::PushHeader&, CodedChunk)> on_chunk;
  // All blocks were taken. Called on the executor; may block.
  std::function<absl::StatusOr<v1::PushResponse>(const v1::PushHeader&)> on_complete;
  // Optional, for metrics: the end of the stream, however it came. Called once, last.
  std::function<void(const absl::Status&, const WireBytes&)> on_end = nullptr;
};

// Errors of the stream itself: those of IncomingMessage, ChunkVerifier and StreamAdmission;
// INVALID_ARGUMENT (MISSING_HEADER, MISSING_DEADLINE); RESOURCE_EXHAUSTED with RetryInfo when the
// executor's queue is full; DEADLINE_EXCEEDED (NO_PROGRESS). Chunks before the error were given to
// the handler.
grpc::ServerReadReactor<grpc::ByteBuffer>* ReceivePush(grpc::CallbackServerContext* context,
                                                       grpc::ByteBuffer* response,
                                                       PushHandler handler,
                                                       const BulkResources& resources);

// What answers a pull. The segments cover the requested blocks; header.payload_bytes is set by
// SendPull.
struct PullSource {
  v1::PullHeader header;
  CodedSource source;
};
struct PullHandler {
  // Called on the executor; may block. `blocks` of the request are not checked yet (CheckBlocksField).
  std::function<absl::StatusOr<PullSource>(const v1::PullRequest&)> on_request;
  // As for PushHandler.
  std::function<void(const absl::Status&, const WireBytes&)> on_end = nullptr;
};

grpc::ServerWriteReactor<grpc::ByteBuffer>* SendPull(grpc::CallbackServerContext* context,
                                                     const grpc::ByteBuffer* request,
                                                     PullHandler handler,
                                                     const BulkResources& resources);

}  // namespace longhaul

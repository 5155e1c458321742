// Shared by a client's bulk calls: deadlines and stop requests, and parts that run over several
// channels.
#pragma once

#include <functional>
#include <memory>
#include <stop_token>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/rpc/chunk_size.h"
#include "common/rpc/deadline.h"
#include "common/rpc/pacer.h"
#include "common/rpc/wire_bytes.h"
#include "grpcpp/channel.h"
#include "grpcpp/client_context.h"

namespace longhaul {

using BulkChannels = absl::Span<const std::shared_ptr<grpc::Channel>>;

struct BulkCall {
  // Of SteadyTime. Required: the server refuses calls without a deadline.
  absl::Time deadline;
  // A stop request from any thread cancels the call: CANCELLED.
  std::stop_token stop;
  // Optional. The bytes that were sent or received are added, whether the call succeeds or not.
  WireBytes* wire = nullptr;
  // Optional. A push waits for it before each chunk.
  Pacer* pacer = nullptr;
  // What each connection begins with.
  ChunkSize chunk_size = {};
};

// One call on one channel. A stop request cancels it at any time, also before it begins.
class ClientCall {
 public:
  ClientCall(const std::stop_token& stop, absl::Time deadline)
      : cancel_(stop, [this] { context_.TryCancel(); }) {
    context_.set_deadline(GrpcDeadline(deadline));
  }
  grpc::ClientContext& context() { return context_; }

 private:
  grpc::ClientContext context_;
  std::stop_callback<std::function<void()>> cancel_;
};

// Runs parts 0 .. parts-1 concurrently, the last on the calling thread. Each has its own count of
// wire bytes, which is added to call.wire. The first failure stops the others and is returned.
absl::Status RunParts(
    size_t parts, const BulkCall& call,
    absl::FunctionRef<absl::Status(size_t part, const std::stop_token&, WireBytes&)> run);

}  // namespace longhaul

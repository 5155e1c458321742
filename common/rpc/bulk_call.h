// What the bulk calls of a client share: how they are bounded and stopped, and parts over several
// channels.
#pragma once

#include <functional>
#include <memory>
#include <stop_token>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/rpc/pacer.h"
#include "common/rpc/wire_bytes.h"
#include "grpcpp/channel.h"
#include "grpcpp/client_context.h"

namespace longhaul {

using BulkChannels = absl::Span<const std::shared_ptr<grpc::Channel>>;

struct BulkCall {
  absl::Time deadline;   // Required: the server refuses endless calls.
  std::stop_token stop;  // A stop request cancels the call from any thread: CANCELLED.
  // Optional: what was sent or received is added, whether the call succeeds or not.
  WireBytes* wire = nullptr;
  Pacer* pacer = nullptr;  // Optional: what a push waits for before each chunk.
};

// One call on one channel. Cancelled by a stop request at any time, also before it begins.
class ClientCall {
 public:
  ClientCall(const std::stop_token& stop, absl::Time deadline)
      : cancel_(stop, [this] { context_.TryCancel(); }) {
    context_.set_deadline(absl::ToChronoTime(deadline));
  }
  grpc::ClientContext& context() { return context_; }

 private:
  grpc::ClientContext context_;
  std::stop_callback<std::function<void()>> cancel_;
};

// Runs part 0 .. parts-1 at once, the last on the calling thread, each with wire bytes of its own,
// which are added to call.wire. The first failure stops the others and is returned.
absl::Status RunParts(
    size_t parts, const BulkCall& call,
    absl::FunctionRef<absl::Status(size_t part, const std::stop_token&, WireBytes&)> run);

}  // namespace longhaul

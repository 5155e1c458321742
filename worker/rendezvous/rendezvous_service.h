// RendezvousService of rendezvous.proto. The contract is in the .proto; who takes part is decided
// in rendezvous_round.h; this is the gRPC adapter around it.
//
// A rank that waits costs a call and its blob, no thread. Its own deadline ends it, or whatever
// ends its connection. No more calls wait than the generation has ranks, since each rank waits
// once; all others are answered at once.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/server_callback.h"
#include "longhaul/v1/rendezvous.grpc.pb.h"
#include "worker/rendezvous/rendezvous_round.h"

namespace longhaul {

// Raw: a response has everybody's blob, so all ranks share its bytes.
using RawRendezvousService =
    v1::RendezvousService::WithRawCallbackMethod_Exchange<v1::RendezvousService::Service>;

// Thread-safe; handlers return at once. Outlives the server that it is registered with, which was
// shut down before.
class RendezvousService final : public RawRendezvousService {
 public:
  // The token has 1 to kRendezvousTokenBytesMax bytes.
  explicit RendezvousService(std::string token) : token_(std::move(token)) {}

  // See RendezvousServer. `size` is in range.
  void StartGeneration(uint64_t generation, int size) ABSL_LOCKS_EXCLUDED(mutex_);
  // All that wait, and all that come from now on, get UNAVAILABLE.
  void Close() ABSL_LOCKS_EXCLUDED(mutex_);
  int waiting() const ABSL_LOCKS_EXCLUDED(mutex_);

  grpc::ServerUnaryReactor* Exchange(grpc::CallbackServerContext* context,
                                     const grpc::ByteBuffer* request,
                                     grpc::ByteBuffer* response) override
      ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  // Of one call. Whoever takes it out of `waiting_` ends the call.
  class Waiter;
  using Waiters = std::map<RendezvousRound::Caller, Waiter*>;

  absl::StatusOr<RendezvousRound::Request> Check(const grpc::CallbackServerContext& context,
                                                 const grpc::ByteBuffer& request) const;
  absl::Status Join(RendezvousRound::Caller caller, RendezvousRound::Request request)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Leave(RendezvousRound::Caller caller) ABSL_LOCKS_EXCLUDED(mutex_);
  static void EndAll(const Waiters& waiters, const absl::Status& status);

  const std::string token_;

  mutable absl::Mutex mutex_;
  std::optional<RendezvousRound> round_ ABSL_GUARDED_BY(mutex_);  // Nothing before the first.
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  RendezvousRound::Caller next_caller_ ABSL_GUARDED_BY(mutex_) = 0;
  Waiters waiting_ ABSL_GUARDED_BY(mutex_);  // In the exchange of round_.
};

}  // namespace longhaul

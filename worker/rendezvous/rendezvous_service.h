// RendezvousService of rendezvous.proto. The .proto has the contract, and rendezvous_round.h
// decides which ranks take part. This is the gRPC adapter around it.
//
// A rank that waits costs a call and its blob, but no thread. Its own deadline ends it, or the end
// of its connection. No more calls wait than the generation has ranks, since each rank waits once.
// All other calls are answered at once.
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

// Raw messages, since a response has the blobs of all ranks: so all calls share its bytes.
using RawRendezvousService =
    v1::RendezvousService::WithRawCallbackMethod_Exchange<v1::RendezvousService::Service>;

// Thread-safe; handlers return at once. Outlives the server with which it is registered; that
// server must be shut down before.
class RendezvousService final : public RawRendezvousService {
 public:
  // The token has 1 to kRendezvousTokenBytesMax bytes. `peer_name`: see RendezvousServer.
  explicit RendezvousService(std::string token, std::string peer_name = "")
      : token_(std::move(token)), peer_name_(std::move(peer_name)) {}

  // See RendezvousServer. `size` is in range.
  void StartGeneration(uint64_t generation, int size) ABSL_LOCKS_EXCLUDED(mutex_);
  // All waiting calls, and all that come from now on, get UNAVAILABLE.
  void Close() ABSL_LOCKS_EXCLUDED(mutex_);
  int waiting() const ABSL_LOCKS_EXCLUDED(mutex_);

  grpc::ServerUnaryReactor* Exchange(grpc::CallbackServerContext* context,
                                     const grpc::ByteBuffer* request,
                                     grpc::ByteBuffer* response) override
      ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  // One waiting call. The thread that takes it out of `waiting_` ends it.
  class Waiter;
  using Waiters = std::map<RendezvousRound::Caller, Waiter*>;

  absl::StatusOr<RendezvousRound::Request> Check(const grpc::CallbackServerContext& context,
                                                 const grpc::ByteBuffer& request) const;
  absl::Status Join(RendezvousRound::Caller caller, RendezvousRound::Request request)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Leave(RendezvousRound::Caller caller) ABSL_LOCKS_EXCLUDED(mutex_);
  static void EndAll(const Waiters& waiters, const absl::Status& status);

  const std::string token_, peer_name_;

  mutable absl::Mutex mutex_;
  // Empty before the first generation.
  std::optional<RendezvousRound> round_ ABSL_GUARDED_BY(mutex_);
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  RendezvousRound::Caller next_caller_ ABSL_GUARDED_BY(mutex_) = 0;
  // The calls that wait in the exchange of round_.
  Waiters waiting_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace longhaul

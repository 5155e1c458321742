// How many calls a server holds at one time, of all its connections together, and the limit of
// them. HTTP/2 limits the calls in progress of a connection, but a client that resets a call may
// begin another at once, although the server still has the one before (CVE-2023-44487). gRPC 1.51
// holds any number of such calls, about 20 KiB each, and its memory quota does not count them.
//
// A call is counted before gRPC queues it for its handler, and until gRPC destroys it. Calls beyond
// the limit are refused at once; what is left of them takes no memory.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>

#include "grpcpp/security/auth_context.h"
#include "grpcpp/security/auth_metadata_processor.h"
#include "grpcpp/security/server_credentials.h"
#include "grpcpp/support/server_interceptor.h"

namespace longhaul {

// Thread-safe; does not block. Outlives the server.
class CallLimit {
 public:
  explicit CallLimit(int64_t calls_max) : calls_max_(calls_max) {}

  // A call comes. False: there are too many; the call is refused and not counted. A caller who is
  // not known finds only a quarter of the room.
  bool Enter(bool known = true);
  // The end of a call that was let in and got no handler. Other calls leave by the counter.
  void Leave() { --held_; }

  // Ends the count of each call that was let in. gRPC makes an interceptor for every such call,
  // also for one that the client has reset already.
  std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface> MakeCounter();

  // Calls that are held now; calls that came since the start, with those that were refused.
  int64_t held() const { return held_; }
  int64_t came() const { return came_; }

 private:
  class Held;
  class Counter;

  const int64_t calls_max_;
  std::atomic<int64_t> held_ = 0, came_ = 0;
};

// Whether the server knows who calls.
using KnowsCaller = std::function<bool(const grpc::AuthMetadataProcessor::InputMetadata& metadata,
                                       const grpc::AuthContext& connection)>;

// Asks `limit`, then `door`, before gRPC queues a call. `door` null: nobody else is asked. `knows`
// empty: everybody is known. `limit` outlives the server.
std::shared_ptr<grpc::AuthMetadataProcessor> MakeLimitedDoor(
    CallLimit* limit, std::shared_ptr<grpc::AuthMetadataProcessor> door, KnowsCaller knows);

// Credentials of a server in plaintext that asks `limit`, which outlives the server.
std::shared_ptr<grpc::ServerCredentials> MakeLimitedPlaintext(CallLimit* limit);

}  // namespace longhaul

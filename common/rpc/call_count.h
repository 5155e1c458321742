// How many calls of a server are in progress: for its shutdown, which waits for calls. Those of
// gRPC's own services (health, reflection) do not count, since nothing is lost with them.
#pragma once

#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "grpcpp/support/server_interceptor.h"

namespace longhaul {

// Thread-safe. Outlives the server.
class CallCount {
 public:
  // Counts each call, from before its handler until its status was sent.
  std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface> MakeCounter();
  // Blocks until there is no call.
  void AwaitNone() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  class Counted;
  class Counter;

  absl::Mutex mutex_;
  int calls_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace longhaul

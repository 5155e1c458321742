// Keeps a WatchPlan stream open, on a control channel of its own, and passes its events on. It
// reconnects without limit when the connection is lost, and while a restarted coordinator does not
// know the pool (POOL_UNKNOWN): then the pool's agent is about to join again. Waits between
// attempts grow (FullJitter). Owns the channel and one thread.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "common/rpc/tls.h"
#include "longhaul/v1/sync.grpc.pb.h"

namespace longhaul::session {

class PlanWatcher {
 public:
  struct Options {
    std::string coordinator, job, pool, incarnation;
    int rank = 0, ranks = 1;
    v1::DataSummary data = {};
    // Null: plaintext.
    std::shared_ptr<const Tls> tls = nullptr;
  };
  // Called on the watcher's thread, one at a time.
  struct Handler {
    std::function<void(const v1::PlanEvent&)> on_event;
    // A stream that was open has ended. The watcher opens another one.
    std::function<void(const absl::Status&)> on_disconnected;
    // The coordinator refuses this incarnation for good. No call follows.
    std::function<void(const absl::Status&)> on_refused;
  };
  // Opens the stream in the background. Does not block.
  PlanWatcher(Options options, Handler handler);
  // Cancels the stream and waits for the thread, and so for a handler that runs.
  ~PlanWatcher();

 private:
  void Watch(const std::stop_token& stop);
  absl::Status ReadStream(v1::SyncService::Stub& stub, const std::stop_token& stop,
                          bool* connected);

  const Options options_;
  const Handler handler_;
  std::jthread thread_;
};

}  // namespace longhaul::session

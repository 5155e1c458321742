// Keeps a WatchPlan stream open on a control channel of its own and hands on what it brings.
// Reconnects for ever after lost connections and while a restarted coordinator does not know the
// pool (POOL_UNKNOWN) until its agent joined again.
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
    std::shared_ptr<const Tls> tls = nullptr;  // Null: plaintext.
  };
  // All called on the watcher's thread, one at a time.
  struct Handler {
    std::function<void(const v1::PlanEvent&)> on_event;
    std::function<void(const absl::Status&)> on_disconnected;
    std::function<void(const absl::Status&)>
        on_refused;  // Final: the coordinator does not want this incarnation.
  };
  PlanWatcher(Options options, Handler handler);
  // Cancels the stream and joins the thread.
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

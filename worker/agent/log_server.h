// Answers requests for a node's log (LogService.ServeLogs). Keeps a stream to the coordinator open,
// and sends nothing until somebody asks. While the coordinator is away it tries again, without end.
// It has its own thread and channel, so that log lines never delay a heartbeat.
#pragma once

#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/rpc/tls.h"
#include "grpcpp/channel.h"
#include "worker/agent/log_ring.h"

namespace longhaul {

class LogServer {
 public:
  struct Options {
    // HOST:PORT.
    std::string coordinator;
    // Null: plaintext.
    std::shared_ptr<const Tls> tls;
    std::string pool;
    // Empty: the coordinator numbers this node. No stream is opened before SetNode.
    std::optional<int> node = 0;
    // Must outlive this object.
    LogRing* ring = nullptr;
    // How long lines are gathered before they are sent.
    absl::Duration gather = absl::Milliseconds(200);
  };
  explicit LogServer(Options options);
  // Ends the stream.
  ~LogServer();

  // The node's number. With another one than before, the stream is opened anew. Thread-safe; does
  // not block.
  void SetNode(int node) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  class Call;
  void Run(const std::stop_token& stop);
  // The number for the next stream, and what ends that. Waits for the number. Empty: `stop` came
  // first.
  std::optional<int> BeginCall(const std::stop_token& stop, std::stop_token* call)
      ABSL_LOCKS_EXCLUDED(mutex_);

  const Options options_;
  const std::shared_ptr<grpc::Channel> channel_;
  absl::Mutex mutex_;
  std::optional<int> node_ ABSL_GUARDED_BY(mutex_);
  // Of the newest stream.
  std::stop_source call_ ABSL_GUARDED_BY(mutex_);
  std::jthread thread_;
};

}  // namespace longhaul

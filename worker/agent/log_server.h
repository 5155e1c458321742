// Answers requests for a node's log (LogService.ServeLogs). Keeps a stream to the coordinator open,
// and sends nothing until somebody asks. While the coordinator is away it tries again, without end.
// It has its own thread and channel, so that log lines never delay a heartbeat.
#pragma once

#include <memory>
#include <string>
#include <thread>

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
    int node = 0;
    // Must outlive this object.
    LogRing* ring = nullptr;
    // How long lines are gathered before they are sent.
    absl::Duration gather = absl::Milliseconds(200);
  };
  explicit LogServer(Options options);
  // Ends the stream.
  ~LogServer();

 private:
  class Call;
  void Run(const std::stop_token& stop);

  const Options options_;
  const std::shared_ptr<grpc::Channel> channel_;
  std::jthread thread_;
};

}  // namespace longhaul

// Serves the operator over HTTP on a port of its own:
//   /metrics  every series of the registry, in Prometheus's text format
//   /healthz  200 while the process can answer: restart it if not
//   /readyz   200 if the program says that it is ready, else 503 with the reason: send it no work
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/metrics/registry.h"

namespace longhaul {

// Serves 64 connections at one time; one whose request is not whole after a second is closed.
// Thread-safe. Stops, and waits for requests in flight, when destroyed.
class MetricsServer {
 public:
  struct Options {
    std::string address = "127.0.0.1";  // An IPv4 address, or IPv6 in brackets.
    int port = 0;                       // 0: any that is free; ask port().
  };

  // `registry` must outlive the server. `ready` is called from the server's threads and must not
  // block. INVALID_ARGUMENT: no address, or a port out of range. UNAVAILABLE: the address cannot be bound.
  static absl::StatusOr<std::unique_ptr<MetricsServer>> Start(const Options& options,
                                                              const MetricRegistry& registry,
                                                              std::function<absl::Status()> ready);
  ~MetricsServer();

  int port() const { return port_; }

 private:
  struct Http;  // The handlers and civetweb's server.
  MetricsServer(std::unique_ptr<Http> http, int port);

  std::unique_ptr<Http> http_;
  const int port_;
};

}  // namespace longhaul

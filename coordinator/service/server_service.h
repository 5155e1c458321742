// ServerService: what the coordinator says about itself.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "common/base/clock.h"
#include "coordinator/access/door.h"
#include "grpcpp/support/server_callback.h"
#include "longhaul/v1/server.grpc.pb.h"

namespace longhaul::coordinator {

// The limit of a payload and of an answer: half of a control message, so that both fit with their
// framing.
inline constexpr int kProbeBytesMax = 1 << 20;

struct ServerFacts {
  Clock* clock = nullptr;  // Outlives the service.
  absl::Time started;
  // Of the data folder; -1: not known. Thread-safe; does not block.
  std::function<int64_t()> disk_free_bytes;
  std::function<absl::Status()> ready;        // Thread-safe.
  std::function<std::string()> http_address;  // Thread-safe.
  bool http_tls = false;
  const Door* door = nullptr;  // Null without TLS.
};

// Thread-safe. Answers on gRPC's threads and does not use the owner thread, so it answers also
// while decisions wait for a disk.
class ServerService final : public v1::ServerService::CallbackService {
 public:
  explicit ServerService(ServerFacts facts) : facts_(std::move(facts)) {}

  grpc::ServerUnaryReactor* Describe(grpc::CallbackServerContext* context,
                                     const v1::DescribeRequest* request,
                                     v1::DescribeResponse* response) override;
  grpc::ServerUnaryReactor* Probe(grpc::CallbackServerContext* context,
                                  const v1::ProbeRequest* request,
                                  v1::ProbeResponse* response) override;

 private:
  const ServerFacts facts_;
};

}  // namespace longhaul::coordinator

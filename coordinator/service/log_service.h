// LogService of logs.proto over gRPC. The contract is in the .proto.
#pragma once

#include "coordinator/access/door.h"
#include "coordinator/service/log_hub.h"
#include "grpcpp/support/server_callback.h"
#include "longhaul/v1/logs.grpc.pb.h"

namespace longhaul::coordinator {

// Bytes of text in one message of an agent. At most kLogDemandsMax answers wait for one agent.
inline constexpr size_t kLogTextMax = 256 << 10;
inline constexpr int kLogTailMax = 10'000;
inline constexpr int kLogPositionsMax = 10'000;
inline constexpr size_t kLogDemandsMax = 1024;

// Thread-safe. Does not use the owner thread. The hub must outlive the server.
class LogService final : public v1::LogService::CallbackService {
 public:
  // Not inline: what makes or ends a service instantiates the handlers of all its methods, in
  // seconds. `certificates`: certificates identify pools (caller.h). `door`: null without TLS.
  LogService(LogHub* hub, bool certificates, const Door* door);
  ~LogService() override;

  grpc::ServerWriteReactor<v1::FollowLogsResponse>* FollowLogs(
      grpc::CallbackServerContext* context, const v1::FollowLogsRequest* request) override;
  grpc::ServerBidiReactor<v1::ServeLogsRequest, v1::ServeLogsResponse>* ServeLogs(
      grpc::CallbackServerContext* context) override;

 private:
  LogHub* const hub_;
  const bool certificates_;
  const Door* const door_;
};

}  // namespace longhaul::coordinator

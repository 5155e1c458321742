// A gRPC server with the settings of this project: callback services, health and reflection
// services, keepalive permission that agrees with channel.h, message limits, no compression in
// either direction.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/rpc/tls.h"
#include "common/rpc/transport_options.h"
#include "grpcpp/security/auth_metadata_processor.h"
#include "grpcpp/server.h"
#include "grpcpp/support/server_interceptor.h"

namespace longhaul {

struct ServerOptions {
  std::string address = "localhost:0";  // host:port, [v6]:port or unix:path. Port 0: any free one.
  std::shared_ptr<const Tls> tls;       // Null: plaintext.
  // Plaintext on an address that other machines reach must be asked for.
  bool allow_plaintext_beyond_localhost = false;
  ClientCertificates client_certificates = ClientCertificates::kRequired;
  // Asked about every call, also of health, reflection and methods that nobody serves, before its
  // handler. With `tls` only.
  std::shared_ptr<grpc::AuthMetadataProcessor> door;
  // Makes what watches calls. Empty: nothing does.
  std::function<std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>()> observer;
  int64_t receive_bytes_max = kControlMessageBytesMax;
  int64_t send_bytes_max = kControlMessageBytesMax;
  Keepalive keepalive;
};

// OK when `address` can be reached from this machine only (localhost, 127.0.0.0/8, ::1, a unix
// socket). INVALID_ARGUMENT otherwise, with a hint what to set.
absl::Status RefuseNonLoopback(absl::string_view address);

// Thread-safe.
class Server {
 public:
  // Serves at once. The services must outlive the server, and what their handlers use must outlive
  // Shutdown.
  //   INVALID_ARGUMENT  malformed address, plaintext beyond localhost that was not asked for, or a
  //                     door without TLS
  //   UNAVAILABLE       the address cannot be bound (in use, not of this machine)
  static absl::StatusOr<std::unique_ptr<Server>> Start(const ServerOptions& options,
                                                       const std::vector<grpc::Service*>& services);
  // Shuts down without grace.
  ~Server();

  int port() const { return port_; }  // 0 for a unix socket.
  // The listening address with the port that was given: a client on this machine can dial it.
  const std::string& address() const { return address_; }

  // What the health service answers for "" (the whole server). True after Start.
  void SetServing(bool serving);

  // Health says NOT_SERVING, no new calls; calls in flight have `grace` to end, then they are
  // cancelled. Blocks until the last handler has finished. Later calls return at once.
  void Shutdown(absl::Duration grace);

 private:
  Server(std::unique_ptr<grpc::Server> server, std::string address, int port);

  std::unique_ptr<grpc::Server> server_;
  const std::string address_;
  const int port_;
};

}  // namespace longhaul

// A gRPC server with this project's settings: callback services, health and reflection services,
// keepalive permission that matches channel.h, message limits, and no compression in either
// direction.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/rpc/call_count.h"
#include "common/rpc/call_limit.h"
#include "common/rpc/listener.h"
#include "common/rpc/reset_watch.h"
#include "common/rpc/tls.h"
#include "common/rpc/transport_options.h"
#include "grpcpp/generic/async_generic_service.h"
#include "grpcpp/security/auth_metadata_processor.h"
#include "grpcpp/server.h"
#include "grpcpp/server_builder.h"
#include "grpcpp/support/server_interceptor.h"

namespace longhaul {

struct ServerOptions {
  // host:port or [v6]:port. Port 0: any free one.
  std::string address = "localhost:0";
  // Null: plaintext.
  std::shared_ptr<const Tls> tls;
  // Plaintext at an address that other machines can reach must be allowed explicitly.
  bool allow_plaintext_beyond_localhost = false;
  ClientCertificates client_certificates = ClientCertificates::kRequired;
  // Asked before the handler of every call, including health, reflection and unknown methods. Only
  // with `tls`.
  std::shared_ptr<grpc::AuthMetadataProcessor> door;
  // Strangers get less of the server's memory (call_limit.h). Empty: nobody is one. Only with
  // `tls`.
  KnowsCaller knows_caller;
  // Makes the interceptors that see each call of the services before its handler, in this order.
  // May be empty.
  using Interceptors =
      std::vector<std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>>;
  std::function<Interceptors()> interceptors;
  int64_t receive_bytes_max = kControlMessageBytesMax;
  int64_t send_bytes_max = kControlMessageBytesMax;
  // What all connections may hold of what they received. Beyond it calls are ended, whosever they
  // are. Calls themselves may take as much again (call_limit.h); beyond it they are refused.
  int64_t memory_bytes_max = int64_t{1} << 30;
  Keepalive keepalive;
};

// OK if only this machine can reach `address` (IsReachedFromHereAlone, which may block). Otherwise
// INVALID_ARGUMENT, with a hint what to set.
absl::Status RefuseNonLoopback(absl::string_view address);

// UNIMPLEMENTED, reason METHOD_UNKNOWN: a call of a method that the server does not have, for
// example of a client of another version. `method` may be of any length.
absl::Status UnknownMethodError(absl::string_view method);

// Thread-safe.
class Server {
 public:
  // Serves at once. The services must outlive the server, and everything that their handlers use
  // must outlive Shutdown.
  //   INVALID_ARGUMENT  malformed address, plaintext beyond localhost that was not allowed, or a
  //                     door without TLS
  //   UNAVAILABLE       the address cannot be bound (in use, not of this machine)
  //   INTERNAL          gRPC cannot serve these services together
  static absl::StatusOr<std::unique_ptr<Server>> Start(const ServerOptions& options,
                                                       const std::vector<grpc::Service*>& services);
  // Shuts down without grace.
  ~Server();

  int port() const { return listener_->port(); }
  // The listening address with the real port. A client on this machine can dial it.
  const std::string& address() const { return address_; }

  // Sets what the health service answers for "" (the whole server). It is true after Start.
  void SetServing(bool serving);

  // Health becomes NOT_SERVING, and new calls are refused. Calls in progress have `grace` to end,
  // then they are cancelled. Blocks until the last handler has finished; once there is no call, no
  // client that is silent is awaited for long. Later calls return at once.
  void Shutdown(absl::Duration grace);

 private:
  Server(std::unique_ptr<CallCount> calls, std::unique_ptr<CallLimit> limit,
         std::unique_ptr<grpc::CallbackGenericService> unknown_methods,
         std::unique_ptr<grpc::Server> server,
         std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> acceptor,
         std::unique_ptr<Listener> listener);

  // New connections use what it finds in its files.
  std::shared_ptr<const Tls> tls_;
  // They outlive server_.
  const std::unique_ptr<CallCount> calls_;
  const std::unique_ptr<CallLimit> limit_;
  const std::unique_ptr<Listener> listener_;
  const std::unique_ptr<grpc::CallbackGenericService> unknown_methods_;
  std::unique_ptr<grpc::Server> server_;
  // The listener gives it connections, until Shutdown.
  const std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> acceptor_;
  // Closes connections of the listener.
  const std::unique_ptr<ResetWatch> reset_watch_;
  std::string address_;
};

}  // namespace longhaul

#include "common/rpc/server.h"

#include <chrono>
#include <stop_token>
#include <thread>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "common/base/host_port.h"
#include "common/base/listen_fault.h"
#include "common/base/status_macros.h"
#include "common/rpc/deadline.h"
#include "common/rpc/retry.h"
#include "common/rpc/status_conversion.h"
#include "common/rpc/status_details.h"
#include "grpc/compression.h"
#include "grpc/grpc.h"
#include "grpcpp/ext/proto_server_reflection_plugin.h"
#include "grpcpp/health_check_service_interface.h"
#include "grpcpp/resource_quota.h"
#include "grpcpp/server_builder.h"

namespace longhaul {
namespace {

using Acceptor = grpc::experimental::ExternalConnectionAcceptor;

// Room for a call, without its messages. Calls that were reset at once took 22 KB each.
constexpr int64_t kCallBytes = 64 << 10;

// Of TLS and HTTP/2, before a connection is known to be a client's.
constexpr absl::Duration kHandshakeMax = absl::Seconds(20);

absl::StatusOr<HostPort> ParseAddress(absl::string_view address) {
  absl::StatusOr<HostPort> parsed = ParseHostPort(address);
  if (parsed.ok()) return parsed;
  return BadRequestError({{"address", std::string(parsed.status().message())}});
}

void Configure(const ServerOptions& options, grpc::ServerBuilder& builder) {
  builder.SetMaxReceiveMessageSize(static_cast<int>(options.receive_bytes_max));
  builder.SetMaxSendMessageSize(static_cast<int>(options.send_bytes_max));
  builder.SetDefaultCompressionAlgorithm(GRPC_COMPRESS_NONE);
  // Compressed requests are refused, so that a small message cannot grow into a large one.
  builder.SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_DEFLATE, false);
  builder.SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_GZIP, false);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_BDP_PROBE, 1);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, kConnectionStreamsMax);
  builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS,
                             static_cast<int>(absl::ToInt64Milliseconds(kHandshakeMax)));
  // What comes is held before anybody is asked whether it may. Beyond this, gRPC ends calls.
  grpc::ResourceQuota memory;
  memory.Resize(options.memory_bytes_max);
  builder.SetResourceQuota(memory);
  // Reflection is a synchronous service. A thread of its pool may miss the shutdown, and then waits
  // for this time (by default 10 s).
  builder.SetSyncServerOption(grpc::ServerBuilder::SyncServerOption::CQ_TIMEOUT_MSEC, 500);
  const Keepalive& keepalive = options.keepalive;
  const auto milliseconds = [](absl::Duration d) {
    return static_cast<int>(absl::ToInt64Milliseconds(d));
  };
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, milliseconds(keepalive.time));
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, milliseconds(keepalive.timeout));
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
                             milliseconds(PingsPermitted(keepalive)));
}

// For the clients' answers to the end of their connections.
constexpr absl::Duration kGoodbye = absl::Milliseconds(500);

// gRPC's own answer to a call of a method that it does not know has no words.
class UnknownMethods final : public grpc::CallbackGenericService {
  grpc::ServerGenericBidiReactor* CreateReactor(
      grpc::GenericCallbackServerContext* context) override {
    class Refusal final : public grpc::ServerGenericBidiReactor {
     public:
      explicit Refusal(const absl::Status& why) { Finish(ToGrpcStatus(why)); }
      void OnDone() override { delete this; }
    };
    return new Refusal(UnknownMethodError(context->method()));
  }
};

// Tells the listener of each call. It is no call's interceptor.
class UsedConnections : public grpc::experimental::ServerInterceptorFactoryInterface {
 public:
  explicit UsedConnections(Listener* listener) : listener_(listener) {}
  grpc::experimental::Interceptor* CreateServerInterceptor(
      grpc::experimental::ServerRpcInfo* call) override {
    listener_->Used(PeerFromText(call->server_context()->peer()));
    return nullptr;
  }

 private:
  Listener* const listener_;
};

// gRPC's own limit of all metadata is larger.
constexpr size_t kMethodShown = 128;

}  // namespace

absl::Status UnknownMethodError(absl::string_view method) {
  return WithErrorInfo(absl::UnimplementedError(absl::StrCat(
                           "this server has no method ", method.substr(0, kMethodShown),
                           ": use the same version of client and server")),
                       {"METHOD_UNKNOWN", {}});
}

absl::Status RefuseNonLoopback(absl::string_view address) {
  LH_ASSIGN_OR_RETURN(const HostPort parsed, ParseAddress(address));
  if (IsReachedFromHereAlone(parsed.host)) return absl::OkStatus();
  return BadRequestError(
      {{"address", absl::StrCat("\"", address,
                                "\" is reachable from other machines, in plaintext. Configure TLS, "
                                "listen on localhost, or allow plaintext explicitly")}});
}

absl::StatusOr<std::unique_ptr<Server>> Server::Start(const ServerOptions& options,
                                                      const std::vector<grpc::Service*>& services) {
  LH_ASSIGN_OR_RETURN(const HostPort listen, ParseAddress(options.address));
  if (!options.tls && !options.allow_plaintext_beyond_localhost) {
    LH_RETURN_IF_ERROR(RefuseNonLoopback(options.address));
  }
  if (options.door && !options.tls) {
    return absl::InvalidArgumentError("callers are known by their TLS connection: there is none");
  }
  // Both affect all builders that are made later in this process. Repeated calls change nothing.
  grpc::EnableDefaultHealthCheckService(true);
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  grpc::ServerBuilder builder;
  Configure(options, builder);
  auto calls = std::make_unique<CallCount>();
  LH_ASSIGN_OR_RETURN(std::unique_ptr<Listener> listener,
                      Listener::Open(listen, options.keepalive.timeout));
  auto limit = std::make_unique<CallLimit>(options.memory_bytes_max / kCallBytes);
  ServerOptions::Interceptors interceptors;
  if (options.interceptors) interceptors = options.interceptors();
  interceptors.push_back(calls->MakeCounter());
  interceptors.push_back(limit->MakeCounter());
  interceptors.push_back(std::make_unique<UsedConnections>(listener.get()));
  builder.experimental().SetInterceptorCreators(std::move(interceptors));
  const std::shared_ptr<grpc::ServerCredentials> credentials =
      options.tls ? options.tls->MakeServer(options.client_certificates)
                  : MakeLimitedPlaintext(limit.get());
  credentials->SetAuthMetadataProcessor(
      MakeLimitedDoor(limit.get(), options.door, options.knows_caller));
  std::unique_ptr<Acceptor> acceptor = builder.experimental().AddExternalConnectionAcceptor(
      grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD, credentials);
  for (grpc::Service* service : services) builder.RegisterService(service);
  auto unknown_methods = std::make_unique<UnknownMethods>();
  builder.RegisterCallbackGenericService(unknown_methods.get());
  std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  // Not the address: the listener has that.
  if (!server) return absl::InternalError("gRPC makes no server of these services: see its log");
  auto result =
      absl::WrapUnique(new Server(std::move(calls), std::move(limit), std::move(unknown_methods),
                                  std::move(server), std::move(acceptor), std::move(listener)));
  result->tls_ = options.tls;
  result->address_ = HostPortText(listen.host, result->port());
  result->listener_->Start([acceptor = result->acceptor_.get()](int connection) {
    Acceptor::NewConnectionParameters accepted;
    accepted.fd = connection;
    acceptor->HandleNewConnection(&accepted);
  });
  return result;
}

Server::Server(std::unique_ptr<CallCount> calls, std::unique_ptr<CallLimit> limit,
               std::unique_ptr<grpc::CallbackGenericService> unknown_methods,
               std::unique_ptr<grpc::Server> server, std::unique_ptr<Acceptor> acceptor,
               std::unique_ptr<Listener> listener)
    : calls_(std::move(calls)),
      limit_(std::move(limit)),
      listener_(std::move(listener)),
      unknown_methods_(std::move(unknown_methods)),
      server_(std::move(server)),
      acceptor_(std::move(acceptor)),
      reset_watch_(std::make_unique<ResetWatch>(
          limit_.get(), [this](const Peer& peer) { return listener_->Close(peer); })) {}

Server::~Server() { Shutdown(absl::ZeroDuration()); }

void Server::SetServing(bool serving) {
  server_->GetHealthCheckService()->SetServingStatus(serving);
}

void Server::Shutdown(absl::Duration grace) {
  listener_->Stop();
  server_->GetHealthCheckService()->Shutdown();
  // gRPC waits for each connection until its client has answered, or 20 s.
  std::jthread hurry([this](const std::stop_token& stop) {
    calls_->AwaitNone();
    WaitUnlessStopped(kGoodbye, stop);
    if (!stop.stop_requested()) grpc_server_cancel_all_calls(server_->c_server());
  });
  server_->Shutdown(GrpcDeadline(SteadyTime() + grace));
}

}  // namespace longhaul

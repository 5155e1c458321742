#include "common/rpc/server.h"

#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "common/rpc/channel.h"
#include "common/rpc/status_conversion.h"
#include "common/rpc/status_details.h"
#include "grpcpp/client_context.h"
#include "grpcpp/generic/generic_stub.h"
#include "gtest/gtest.h"
#include "longhaul/v1/pool.grpc.pb.h"

namespace longhaul {
namespace {

class RefusingPools : public v1::PoolService::CallbackService {
 public:
  grpc::ServerUnaryReactor* Leave(grpc::CallbackServerContext* context, const v1::LeaveRequest*,
                                  v1::LeaveResponse*) override {
    auto* reactor = context->DefaultReactor();
    absl::Status status = BadRequestError({{"pool", "is unknown"}});
    status = WithErrorInfo(status, {"NO_LEASE", {{"pool", "a"}}});
    reactor->Finish(ToGrpcStatus(WithRetryDelay(status, absl::Milliseconds(250))));
    return reactor;
  }
  // Ends when it is cancelled.
  grpc::ServerUnaryReactor* Heartbeat(grpc::CallbackServerContext* context,
                                      const v1::HeartbeatRequest*,
                                      v1::HeartbeatResponse*) override {
    class Reactor : public grpc::ServerUnaryReactor {
      void OnCancel() override { Finish(grpc::Status::CANCELLED); }
      void OnDone() override { delete this; }
    };
    auto* reactor = new Reactor;
    inside.Notify();
    return reactor;
  }
  absl::Notification inside;
};

std::unique_ptr<Server> StartServer(grpc::Service* service) {
  auto server = Server::Start({.address = "127.0.0.1:0"}, {service});
  EXPECT_TRUE(server.ok()) << server.status();
  return *std::move(server);
}
void SetDeadline(grpc::ClientContext& context) {
  context.set_deadline(absl::ToChronoTime(absl::Now() + absl::Seconds(60)));
}

TEST(ServerTest, DetailsOfAStatusSurviveTheWire) {
  RefusingPools service;
  const auto server = StartServer(&service);
  EXPECT_GT(server->port(), 0);
  const auto stub = v1::PoolService::NewStub(MakeChannel({.address = server->address()}));
  grpc::ClientContext context;
  SetDeadline(context);
  v1::LeaveResponse response;
  const absl::Status status = FromGrpcStatus(stub->Leave(&context, {}, &response));
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_EQ(FieldViolationsOf(status), std::vector<FieldViolation>({{"pool", "is unknown"}}));
  EXPECT_EQ(ErrorInfoOf(status), (ErrorDetail{"NO_LEASE", {{"pool", "a"}}}));
  EXPECT_EQ(RetryDelayOf(status), absl::Milliseconds(250));
}

// Calls a unary method without its stub. Returns the bytes of the message, or the error.
absl::StatusOr<std::string> CallRaw(const std::shared_ptr<grpc::Channel>& channel,
                                    const std::string& method) {
  grpc::GenericStub stub(channel);
  grpc::ClientContext context;
  SetDeadline(context);
  grpc::ByteBuffer response;
  grpc::Status status;
  absl::Notification done;
  const grpc::Slice empty;
  const grpc::ByteBuffer nothing(&empty, 1);
  stub.UnaryCall(&context, method, {}, &nothing, &response, [&](grpc::Status result) {
    status = std::move(result);
    done.Notify();
  });
  done.WaitForNotification();
  if (!status.ok()) return FromGrpcStatus(status);
  grpc::Slice slice;
  if (!response.DumpToSingleSlice(&slice).ok()) return absl::InternalError("no bytes");
  return std::string(slice.begin(), slice.end());
}

TEST(ServerTest, WhoCallsAnUnknownMethodIsToldSo) {
  RefusingPools service;
  const auto server = StartServer(&service);
  const auto channel = MakeChannel({.address = server->address()});
  for (const std::string method : {"/longhaul.v1.PoolService/Frob", "/longhaul.v9.Other/Leave"}) {
    const absl::Status status = CallRaw(channel, method).status();
    EXPECT_TRUE(absl::IsUnimplemented(status)) << status;
    EXPECT_EQ(status.message(), "this server has no method " + method +
                                    ": bring client and server to the same version");
    EXPECT_EQ(ErrorInfoOf(status)->reason, "METHOD_UNKNOWN");
  }
}

TEST(ServerTest, AnswersHealthChecks) {
  RefusingPools service;
  const auto server = StartServer(&service);
  const auto channel = MakeChannel({.address = server->address()});
  const std::string check = "/grpc.health.v1.Health/Check";
  EXPECT_EQ(CallRaw(channel, check).value(), "\x08\x01");  // SERVING
  server->SetServing(false);
  EXPECT_EQ(CallRaw(channel, check).value(), "\x08\x02");  // NOT_SERVING
}

TEST(ServerTest, ListsItsServices) {
  RefusingPools service;
  const auto server = StartServer(&service);
  // It is a streaming method. Called as a unary one it fails in a way that shows that it exists.
  const auto answer = CallRaw(MakeChannel({.address = server->address()}),
                              "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo");
  EXPECT_FALSE(absl::IsUnimplemented(answer.status())) << answer.status();
}

TEST(ServerTest, ShutdownCancelsWhatIsStillInFlightAfterItsGrace) {
  RefusingPools service;
  const auto server = StartServer(&service);
  const auto stub = v1::PoolService::NewStub(MakeChannel({.address = server->address()}));
  grpc::ClientContext context;
  SetDeadline(context);
  v1::HeartbeatRequest request;
  v1::HeartbeatResponse response;
  absl::Notification done;
  stub->async()->Heartbeat(&context, &request, &response, [&](grpc::Status status) {
    EXPECT_FALSE(status.ok());
    done.Notify();
  });
  service.inside.WaitForNotification();
  server->Shutdown(absl::Milliseconds(1));
  done.WaitForNotification();
  server->Shutdown(absl::ZeroDuration());
}

TEST(ServerTest, APortInUseIsAnError) {
  RefusingPools service;
  const auto server = StartServer(&service);
  EXPECT_TRUE(
      absl::IsUnavailable(Server::Start({.address = server->address()}, {&service}).status()));
}

TEST(ServerTest, PlaintextBeyondLocalhostMustBeAllowed) {
  for (const char* address : {"localhost:1", "127.0.0.1:0", "127.1.2.3:5", "[::1]:9"}) {
    EXPECT_TRUE(RefuseNonLoopback(address).ok()) << address;
  }
  for (const char* address : {"0.0.0.0:1", "[::]:1", ":1", "10.0.0.1:1", "127.example.org:1",
                              "host:1", "localhost", "::1:5", "", "localhost:", "unix:/tmp/x"}) {
    const absl::Status status = RefuseNonLoopback(address);
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << address;
    EXPECT_EQ(FieldViolationsOf(status).size(), 1) << address;
  }
  RefusingPools service;
  EXPECT_TRUE(
      absl::IsInvalidArgument(Server::Start({.address = "0.0.0.0:0"}, {&service}).status()));
  EXPECT_TRUE(
      Server::Start({.address = "0.0.0.0:0", .allow_plaintext_beyond_localhost = true}, {&service})
          .ok());
}

TEST(ServerTest, RefusesAMalformedAddress) {
  RefusingPools service;
  for (const char* address : {"127.0.0.1:99999", "127.0.0.1:x", ":0", "localhost"}) {
    const auto server =
        Server::Start({.address = address, .allow_plaintext_beyond_localhost = true}, {&service});
    EXPECT_EQ(FieldViolationsOf(server.status()).size(), 1u) << address;
  }
}

}  // namespace
}  // namespace longhaul

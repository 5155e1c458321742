#include "common/rpc/server.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "absl/synchronization/blocking_counter.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "common/base/clock.h"
#include "common/rpc/channel.h"
#include "common/rpc/status_conversion.h"
#include "common/rpc/status_details.h"
#include "grpcpp/client_context.h"
#include "grpcpp/generic/generic_stub.h"
#include "gtest/gtest.h"
#include "longhaul/v1/pool.grpc.pb.h"
#include "longhaul/v1/rendezvous.grpc.pb.h"
#include "tests/testing/tcp.h"

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
  // Ends when the test says so.
  grpc::ServerUnaryReactor* Join(grpc::CallbackServerContext* context, const v1::JoinRequest*,
                                 v1::JoinResponse*) override {
    joining = context->DefaultReactor();
    inside.Notify();
    return joining;
  }
  absl::Notification inside;
  grpc::ServerUnaryReactor* joining = nullptr;
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
                                    ": use the same version of client and server");
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

// One peer has vanished: it answers no ping.
TEST(ServerTest, ShutdownWaitsForCallsAndNotForConnections) {
  RefusingPools service;
  const auto server =
      *Server::Start({.address = "127.0.0.1:0", .keepalive = {.time = absl::Hours(1)}}, {&service});
  const int silent = ConnectTcp(server->port());
  ASSERT_GE(silent, 0);
  // The beginning of HTTP/2 and a frame of settings: now it is a client.
  const std::string preface("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0", 33);
  ASSERT_EQ(write(silent, preface.data(), preface.size()), 33);
  // It is accepted after the other one.
  const auto stub = v1::PoolService::NewStub(MakeChannel({.address = server->address()}));
  grpc::ClientContext context;
  SetDeadline(context);
  v1::JoinRequest request;
  v1::JoinResponse response;
  absl::Notification done;
  grpc::Status joined;
  stub->async()->Join(&context, &request, &response, [&](const grpc::Status& status) {
    joined = status;
    done.Notify();
  });
  service.inside.WaitForNotification();
  std::thread shutdown([&] {
    const absl::Time begin = SteadyTime();
    server->Shutdown(absl::Hours(1));
    // gRPC gives it up after 20 s.
    EXPECT_LT(SteadyTime() - begin, absl::Seconds(19));
  });
  absl::SleepFor(absl::Milliseconds(300));
  EXPECT_FALSE(done.HasBeenNotified());
  service.joining->Finish(grpc::Status::OK);
  done.WaitForNotification();
  EXPECT_TRUE(joined.ok()) << joined.error_message();
  shutdown.join();
  close(silent);
}

TEST(ServerTest, APortInUseIsAnError) {
  RefusingPools service;
  const auto server = StartServer(&service);
  EXPECT_TRUE(
      absl::IsUnavailable(Server::Start({.address = server->address()}, {&service}).status()));
}

int LowestFreeFile() {
  const int file = open("/dev/null", O_RDONLY | O_CLOEXEC);
  close(file);
  return file;
}

// While it is alive, so many files more can be opened.
class FilesLeft {
 public:
  explicit FilesLeft(int files) {
    getrlimit(RLIMIT_NOFILE, &before_);
    rlimit now = before_;
    now.rlim_cur = LowestFreeFile() + files;
    setrlimit(RLIMIT_NOFILE, &now);
  }
  ~FilesLeft() { setrlimit(RLIMIT_NOFILE, &before_); }

 private:
  rlimit before_{};
};

bool Answers(const Server& server) {
  const auto stub = v1::PoolService::NewStub(MakeChannel({.address = server.address()}));
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(absl::Now() + absl::Seconds(10)));
  v1::LeaveResponse response;
  return absl::IsInvalidArgument(FromGrpcStatus(stub->Leave(&context, {}, &response)));
}

// Whether the server says something, or ends the connection, within half a second.
bool IsServed(int connection) {
  pollfd entry{connection, POLLIN, 0};
  return poll(&entry, 1, 500) == 1;
}

TEST(ServerTest, AcceptsAgainAfterNoFileWasLeftForAConnection) {
  RefusingPools service;
  const auto server = StartServer(&service);
  ASSERT_TRUE(Answers(*server));
  std::vector<int> connections;
  {
    const FilesLeft few(20);
    for (int one; (one = ConnectTcp(server->port())) >= 0;) connections.push_back(one);
    ASSERT_FALSE(connections.empty());
    EXPECT_FALSE(IsServed(connections.back()));
  }
  for (const int one : connections) close(one);
  EXPECT_TRUE(Answers(*server));
}

TEST(ServerTest, ConnectionsLeaveFilesForTheRestOfTheProcess) {
  RefusingPools service;
  const FilesLeft some(100);
  const auto server = StartServer(&service);
  // Each takes a file at both ends.
  std::vector<int> connections;
  for (int i = 0; i < 45; ++i) connections.push_back(ConnectTcp(server->port()));
  const auto ended = [](int connection) {
    char byte;
    return IsServed(connection) && recv(connection, &byte, 1, 0) <= 0;
  };
  EXPECT_TRUE(ended(connections.back()));
  EXPECT_FALSE(ended(connections.front()));
  for (const int one : connections) close(one);
  EXPECT_TRUE(Answers(*server));
}

// Keeps every request until its call ends.
class Hoard
    : public v1::RendezvousService::WithRawCallbackMethod_Exchange<v1::RendezvousService::Service> {
  grpc::ServerUnaryReactor* Exchange(grpc::CallbackServerContext*, const grpc::ByteBuffer*,
                                     grpc::ByteBuffer*) override {
    class Reactor : public grpc::ServerUnaryReactor {
      void OnCancel() override { Finish(grpc::Status::CANCELLED); }
      void OnDone() override { delete this; }
    };
    return new Reactor;
  }
};

TEST(ServerTest, WhatAllCallsHoldIsBounded) {
  constexpr int kCalls = 64;
  Hoard service;
  const auto server =
      Server::Start({.address = "127.0.0.1:0", .memory_bytes_max = 16 << 20}, {&service});
  ASSERT_TRUE(server.ok()) << server.status();
  const auto stub = v1::RendezvousService::NewStub(MakeChannel({.address = (*server)->address()}));
  v1::ExchangeRequest request;
  request.set_blob(std::string(1 << 20, 'x'));
  std::vector<grpc::ClientContext> contexts(kCalls);
  std::vector<v1::ExchangeResponse> responses(kCalls);
  absl::BlockingCounter left(kCalls);
  std::atomic<int> ended = 0;
  absl::Notification most_ended;
  for (int i = 0; i < kCalls; ++i) {
    stub->async()->Exchange(&contexts[i], &request, &responses[i], [&](const grpc::Status&) {
      if (++ended == kCalls / 2) most_ended.Notify();
      left.DecrementCount();
    });
  }
  EXPECT_TRUE(most_ended.WaitForNotificationWithTimeout(absl::Seconds(30)));
  for (grpc::ClientContext& context : contexts) context.TryCancel();
  left.Wait();
}

TEST(ServerTest, WhatGrpcCannotServeIsNoFaultOfTheAddress) {
  RefusingPools pools;
  const absl::Status twice = Server::Start({.address = "127.0.0.1:0"}, {&pools, &pools}).status();
  EXPECT_TRUE(absl::IsInternal(twice)) << twice;
}

TEST(ServerTest, PlaintextBeyondLocalhostMustBeAllowed) {
  for (const char* address : {"localhost:1", "127.0.0.1:0", "127.1.2.3:5", "[::1]:9",
                              // Names that the system resolves, without asking another machine.
                              "0x7f000001:1", "2130706433:1"}) {
    EXPECT_TRUE(RefuseNonLoopback(address).ok()) << address;
  }
  for (const char* address : {"0.0.0.0:1", "[::]:1", ":1", "10.0.0.1:1", "0x08080808:1",
                              "localhost", "::1:5", "", "localhost:", "unix:/tmp/x"}) {
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

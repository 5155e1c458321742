#include "common/rpc/channel.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/base/clock.h"
#include "common/rpc/segment_limit.h"
#include "common/rpc/server.h"
#include "common/rpc/status_conversion.h"
#include "grpcpp/client_context.h"
#include "gtest/gtest.h"
#include "longhaul/v1/pool.grpc.pb.h"
#include "tests/testing/tcp.h"

namespace longhaul {
namespace {

// Tells over which connection a call came.
class PeerTellingService : public v1::PoolService::CallbackService {
 public:
  grpc::ServerUnaryReactor* Leave(grpc::CallbackServerContext* context, const v1::LeaveRequest*,
                                  v1::LeaveResponse*) override {
    auto* reactor = context->DefaultReactor();
    reactor->Finish(grpc::Status(grpc::StatusCode::ABORTED, context->peer()));
    return reactor;
  }
};

absl::Status Leave(const std::shared_ptr<grpc::Channel>& channel, v1::LeaveRequest request = {}) {
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(absl::Now() + absl::Seconds(60)));
  v1::LeaveResponse response;
  return FromGrpcStatus(v1::PoolService::NewStub(channel)->Leave(&context, request, &response));
}

TEST(ChannelTest, EachChannelHasItsOwnConnection) {
  PeerTellingService service;
  const auto server = *Server::Start({.address = "127.0.0.1:0"}, {&service});
  const ChannelOptions options{.address = server->address()};
  const auto one = MakeChannel(options), two = MakeChannel(options);
  EXPECT_NE(Leave(one), Leave(two));
  EXPECT_EQ(Leave(one), Leave(one));
}

TEST(ChannelTest, RefusesToSendMoreThanItsKindMay) {
  PeerTellingService service;
  const auto server = *Server::Start({.address = "127.0.0.1:0"}, {&service});
  v1::LeaveRequest request;
  request.set_pool(std::string(kBulkMessageBytesMax, 'x'));
  EXPECT_TRUE(absl::IsAborted(Leave(MakeChannel({.address = server->address()}), request)));
  EXPECT_TRUE(absl::IsResourceExhausted(
      Leave(MakeChannel({.address = server->address(), .kind = ChannelKind::kBulk}), request)));
}

// The server learns it when it is connected to, so the limit holds both ways.
TEST(ChannelTest, ConnectionsMayHaveSmallSegments) {
  const TcpListener listener = ListenTcp(4);
  const auto segment_bytes = [&](bool small) {
    const auto channel = MakeChannel(
        {.address = absl::StrCat("127.0.0.1:", listener.port), .small_segments = small});
    channel->GetState(/*try_to_connect=*/true);
    const int accepted = accept(listener.socket, nullptr, nullptr);
    int bytes = 0;
    socklen_t size = sizeof bytes;
    EXPECT_EQ(getsockopt(accepted, IPPROTO_TCP, TCP_MAXSEG, &bytes, &size), 0);
    close(accepted);
    return bytes;
  };
  EXPECT_GT(segment_bytes(false), kSmallSegmentBytes);
  const int small = segment_bytes(true);
  EXPECT_GT(small, 0);
  EXPECT_LE(small, kSmallSegmentBytes);
  close(listener.socket);
}

TEST(ChannelTest, NoProxyIsAskedForThisMachine) {
  PeerTellingService service;
  const auto server = *Server::Start({.address = "127.0.0.1:0"}, {&service});
  const std::string port = server->address().substr(server->address().rfind(':'));
  EXPECT_EQ(ProxyNote("hub.example.org:7070"), "");
  setenv("http_proxy", "http://127.0.0.1:1", 1);  // Nobody is there.
  EXPECT_TRUE(absl::IsAborted(Leave(MakeChannel({.address = server->address()}))));
  EXPECT_TRUE(absl::IsAborted(Leave(MakeChannel({.address = "localhost" + port}))));
  // Beyond it the proxy is asked. TEST-NET-1 has no hosts.
  EXPECT_EQ(Leave(MakeChannel({.address = "192.0.2.1:7070"})).message(),
            "cannot connect to 127.0.0.1:1: Connection refused");
  EXPECT_EQ(ProxyNote(server->address()), "");
  EXPECT_EQ(ProxyNote("hub.example.org:7070").rfind("; http_proxy is set: ", 0), 0u);
  unsetenv("http_proxy");
}

TEST(ChannelTest, SaysUnavailableWhenNobodyListens) {
  std::string address;
  {
    PeerTellingService service;
    address = (*Server::Start({.address = "127.0.0.1:0"}, {&service}))->address();
  }
  EXPECT_TRUE(absl::IsUnavailable(Leave(MakeChannel({.address = address}))));
}

// A server that a test starts and stops, always at the same address.
struct Listening {
  Listening() { Open("127.0.0.1:0"); }
  void Open(const std::string& at) {
    server = *Server::Start({.address = at}, {&service});
    address = server->address();
  }
  PeerTellingService service;
  std::unique_ptr<Server> server;
  std::string address;
};

TEST(AwaitConnectedTest, ConnectsAChannelWhoseServerIsBack) {
  Listening listening;
  const auto channel = MakeChannel({.address = listening.address});
  ASSERT_TRUE(absl::IsAborted(Leave(channel)));
  listening.server.reset();
  ASSERT_TRUE(absl::IsUnavailable(Leave(channel)));
  EXPECT_FALSE(AwaitConnected(*channel, SteadyTime() + absl::Milliseconds(50), {}));
  listening.Open(listening.address);
  EXPECT_TRUE(AwaitConnected(*channel, SteadyTime() + absl::Seconds(60), {}));
  // Even a call that would fail at once while the channel waits for its next attempt.
  EXPECT_TRUE(absl::IsAborted(Leave(channel)));
}

TEST(AwaitConnectedTest, EndsAfterAStopRequest) {
  std::string address;
  address = Listening().address;
  std::stop_source stop;
  stop.request_stop();
  EXPECT_FALSE(
      AwaitConnected(*MakeChannel({.address = address}), absl::InfiniteFuture(), stop.get_token()));
}

// On a path on which connections break in every call, nothing else slows the attempts.
TEST(AwaitNextAttemptTest, WaitsAlsoIfItIsSoonConnectedAgain) {
  Listening listening;
  const auto channel = MakeChannel({.address = listening.address});
  ASSERT_TRUE(absl::IsAborted(Leave(channel)));
  listening.server.reset();
  ASSERT_TRUE(absl::IsUnavailable(Leave(channel)));
  listening.Open(listening.address);
  const absl::Time begin = SteadyTime();
  AwaitNextAttempt({&channel, 1}, absl::Seconds(1), {});
  EXPECT_EQ(channel->GetState(false), GRPC_CHANNEL_READY);
  EXPECT_GE(SteadyTime() - begin, absl::Milliseconds(990));
}

TEST(CheckAddressTest, NeedsAHostAndAPort) {
  for (const char* good : {"localhost:7070", "10.0.0.1:1", "[::1]:65535", "a.b-c.example:443"}) {
    EXPECT_TRUE(CheckAddress(good).ok()) << good;
  }
  for (const char* bad :
       {"", "localhost", ":7070", "host:", "host:0", "host:65536", "host:x", "host:-1", "ho st:1",
        "http://host", "http://host:7070", "host:99999999999", "::1:7070", "a:b:70", "host:+70"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(CheckAddress(bad))) << bad;
  }
}

}  // namespace
}  // namespace longhaul

// Clients that reset their calls, with frames of HTTP/2 that are made here.
#include "common/rpc/reset_watch.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/rpc/channel.h"
#include "common/rpc/server.h"
#include "common/rpc/status_conversion.h"
#include "longhaul/v1/pool.grpc.pb.h"
#include "tests/testing/tcp.h"

namespace longhaul {
namespace {

const absl::Time kFirstLook = absl::FromUnixSeconds(1700000000);

TEST(ResetLimitTest, AClientMayGiveUpAllItsCallsAndAFewEachSecond) {
  ResetLimit limit;
  absl::Time now = kFirstLook;
  CallCounts counts{.begun = 5000, .answered = 2952, .reset = 2048};
  EXPECT_FALSE(limit.IsExceeded(counts, now));
  for (int i = 0; i < 100; ++i) {
    now += absl::Seconds(1);
    counts.begun += 100;
    counts.reset += 100;
    EXPECT_FALSE(limit.IsExceeded(counts, now)) << i;
  }
  counts.begun += 200;
  counts.reset += 200;
  EXPECT_TRUE(limit.IsExceeded(counts, now));
}

TEST(ResetLimitTest, AnsweredCallsAreNotLimited) {
  ResetLimit limit;
  EXPECT_FALSE(limit.IsExceeded({.begun = 1'000'000, .answered = 1'000'000}, kFirstLook));
}

// The server has not come to end them.
TEST(ResetLimitTest, MoreCallsInProgressThanHttp2PermitsWereReset) {
  ResetLimit limit;
  EXPECT_FALSE(limit.IsExceeded({.begun = 2048}, kFirstLook));
  EXPECT_TRUE(limit.IsExceeded({.begun = 2049}, kFirstLook));
}

class LeavablePools : public v1::PoolService::CallbackService {
 public:
  grpc::ServerUnaryReactor* Leave(grpc::CallbackServerContext* context, const v1::LeaveRequest*,
                                  v1::LeaveResponse*) override {
    auto* reactor = context->DefaultReactor();
    reactor->Finish(grpc::Status::OK);
    return reactor;
  }
};

std::string H2Frame(char type, char flags, int stream, const std::string& body) {
  const auto byte = [](int number, int shift) { return static_cast<char>(number >> shift); };
  const int size = static_cast<int>(body.size());
  return std::string({byte(size, 16), byte(size, 8), byte(size, 0), type, flags, byte(stream, 24),
                      byte(stream, 16), byte(stream, 8), byte(stream, 0)}) +
         body;
}

// A header that is not compressed.
std::string H2Header(const std::string& name, const std::string& value) {
  const auto text = [](const std::string& t) {
    return std::string(1, static_cast<char>(t.size())) + t;
  };
  return std::string(1, '\0') + text(name) + text(value);
}

// A connection that speaks HTTP/2.
class H2Client {
 public:
  explicit H2Client(int port) : socket_(ConnectTcp(port)) {
    Send("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + H2Frame(4, 0, 0, ""));
  }
  ~H2Client() { close(socket_); }
  // False: the connection has ended.
  bool BeginAndReset(int calls) {
    static const std::string kHeaders =
        H2Header(":method", "POST") + H2Header(":scheme", "http") +
        H2Header(":path", "/longhaul.v1.PoolService/Leave") + H2Header(":authority", "localhost") +
        H2Header("content-type", "application/grpc") + H2Header("te", "trailers");
    std::string frames;
    for (int i = 0; i < calls; ++i, next_ += 2)
      frames += H2Frame(1, 4, next_, kHeaders) + H2Frame(3, 0, next_, std::string("\0\0\0\x08", 4));
    Drain();
    return Send(frames);
  }
  bool Send(const std::string& bytes) {
    return SendAll(socket_, {reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()});
  }
  Peer peer() const {
    sockaddr_in address{};
    socklen_t size = sizeof(address);
    EXPECT_EQ(getsockname(socket_, reinterpret_cast<sockaddr*>(&address), &size), 0);
    return {{reinterpret_cast<const char*>(&address.sin_addr), 4}, ntohs(address.sin_port)};
  }

 private:
  void Drain() const {
    char bytes[4096];
    while (recv(socket_, bytes, sizeof(bytes), MSG_DONTWAIT) > 0) {
    }
  }
  const int socket_;
  int next_ = 1;
};

TEST(ResetWatchTest, AClientThatResetsItsCallsIsDisconnectedAndOthersAreAnswered) {
  LeavablePools pools;
  const auto server = *Server::Start({.address = "127.0.0.1:0"}, {&pools});
  const auto stub = v1::PoolService::NewStub(MakeChannel({.address = server->address()}));
  const auto leave = [&] {
    grpc::ClientContext context;
    context.set_deadline(absl::ToChronoTime(absl::Now() + absl::Seconds(60)));
    context.set_wait_for_ready(true);
    v1::LeaveResponse response;
    return FromGrpcStatus(stub->Leave(&context, {}, &response));
  };
  EXPECT_TRUE(leave().ok());
  H2Client client(server->port());
  bool open = true;
  for (int i = 0; open && i < 10'000; ++i) open = client.BeginAndReset(100);
  EXPECT_FALSE(open);
  EXPECT_TRUE(leave().ok()) << leave();
}

TEST(ResetWatchTest, CountsTheCallsOfEachConnection) {
  LeavablePools pools;
  const auto server = *Server::Start({.address = "127.0.0.1:0"}, {&pools});
  H2Client client(server->port());
  ASSERT_TRUE(client.BeginAndReset(100));
  const auto found = [&] {
    CallCounts counts;
    for (const ConnectionCounts& connection : CountCalls())
      if (connection.peer == client.peer()) counts = connection.calls;
    return counts;
  };
  const absl::Time deadline = absl::Now() + absl::Seconds(60);
  while (found().begun < 100 && absl::Now() < deadline) absl::SleepFor(absl::Milliseconds(1));
  EXPECT_EQ(found().begun, 100);
}

TEST(ListenerTest, EndsOneConnectionByItsPeer) {
  const auto listener = *Listener::Open({"127.0.0.1", 0}, absl::Seconds(10));
  absl::Mutex mutex;
  std::vector<int> accepted;
  listener->Start([&](int connection) {
    absl::MutexLock lock(&mutex);
    accepted.push_back(connection);
  });
  H2Client first(listener->port()), second(listener->port());
  const auto both = [&] { return accepted.size() == 2; };
  mutex.LockWhen(absl::Condition(&both));
  mutex.Unlock();
  EXPECT_FALSE(listener->Close({"\x7f\0\0\1", 1}));
  EXPECT_TRUE(listener->Close(first.peer()));
  EXPECT_FALSE(listener->Close(first.peer()));
  // The first write may come before the other end's word.
  const absl::Time deadline = absl::Now() + absl::Seconds(60);
  while (first.Send("x") && absl::Now() < deadline) {
  }
  EXPECT_FALSE(first.Send("x"));
  EXPECT_TRUE(second.Send("x"));
  listener->Stop();
  for (const int connection : accepted) close(connection);
}

TEST(ListenerTest, KnowsGrpcsTextOfAPeer) {
  EXPECT_EQ(PeerFromText("ipv4:10.0.0.1:4711"), (Peer{std::string("\x0a\0\0\1", 4), 4711}));
  EXPECT_EQ(PeerFromText("ipv6:%5B::1%5D:4711"), (Peer{std::string(15, '\0') + "\1", 4711}));
  for (const char* other :
       {"", "unix:/tmp/x", "ipv4:", "ipv4:10.0.0:1", "ipv6:[::1]:1", "ipv4:x:y"})
    EXPECT_EQ(PeerFromText(other), Peer()) << other;
}

// As programs that are started for a call each.
TEST(ResetWatchTest, ConnectionsThatCarryACallAreNotLimited) {
  LeavablePools pools;
  const auto server = *Server::Start({.address = "127.0.0.1:0"}, {&pools});
  for (int i = 0; i < 600; ++i) {
    const auto stub = v1::PoolService::NewStub(MakeChannel({.address = server->address()}));
    grpc::ClientContext context;
    context.set_deadline(absl::ToChronoTime(absl::Now() + absl::Seconds(60)));
    v1::LeaveResponse response;
    ASSERT_TRUE(stub->Leave(&context, {}, &response).ok()) << i;
  }
}

TEST(ListenerTest, RefusesAnAddressThatConnectsInVainAgainAndAgain) {
  const auto listener = *Listener::Open({"127.0.0.1", 0}, absl::Seconds(10));
  absl::Mutex mutex;
  int taken = 0;
  listener->Start([&](int connection) {
    close(connection);
    absl::MutexLock lock(&mutex);
    ++taken;
  });
  constexpr int kVisits = 1000;
  const absl::Time begin = absl::Now();
  for (int i = 0; i < kVisits; ++i) {
    H2Client client(listener->port());
    // It has been accepted and ended.
    while (client.Send("x")) {
    }
  }
  const double seconds = absl::ToDoubleSeconds(absl::Now() - begin);
  listener->Stop();
  absl::MutexLock lock(&mutex);
  EXPECT_GE(taken, 128);
  EXPECT_LE(taken, 129 + VisitLimit::kPerSecond * (seconds + 1));
}

}  // namespace
}  // namespace longhaul

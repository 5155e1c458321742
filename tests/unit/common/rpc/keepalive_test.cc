// The keepalive settings of channels and servers fit together: silence is noticed, and servers
// accept pings at our own interval.
#include <functional>
#include <memory>

#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "common/rpc/channel.h"
#include "common/rpc/server.h"
#include "common/rpc/status_conversion.h"
#include "gmock/gmock.h"
#include "grpcpp/client_context.h"
#include "gtest/gtest.h"
#include "longhaul/v1/pool.grpc.pb.h"
#include "tests/unit/common/rpc/tapped_link.h"

namespace longhaul {
namespace {

using ::testing::HasSubstr;

// gRPC sends a client's pings at least a second apart.
constexpr Keepalive kShort{.time = absl::Seconds(1), .timeout = absl::Milliseconds(500)};
// For tests in which no side is silent: a busy machine must not look like silence.
constexpr Keepalive kPatient{.time = absl::Seconds(1), .timeout = absl::Seconds(30)};

// Answers Leave at once, but never Heartbeat, which ends when its client is lost.
class HangingPools : public v1::PoolService::CallbackService {
 public:
  grpc::ServerUnaryReactor* Leave(grpc::CallbackServerContext* context, const v1::LeaveRequest*,
                                  v1::LeaveResponse*) override {
    auto* reactor = context->DefaultReactor();
    reactor->Finish(grpc::Status::OK);
    return reactor;
  }
  grpc::ServerUnaryReactor* Heartbeat(grpc::CallbackServerContext*, const v1::HeartbeatRequest*,
                                      v1::HeartbeatResponse*) override {
    class Reactor : public grpc::ServerUnaryReactor {
     public:
      explicit Reactor(absl::Notification& lost) : lost_(lost) {}
      void OnCancel() override {
        lost_.Notify();
        Finish(grpc::Status::CANCELLED);
      }
      void OnDone() override { delete this; }

     private:
      absl::Notification& lost_;
    };
    auto* reactor = new Reactor(lost);
    inside.Notify();
    return reactor;
  }
  absl::Notification inside, lost;
};

class KeepaliveTest : public ::testing::Test {
 protected:
  void Connect(const Keepalive& server, const Keepalive& client) {
    server_ = *Server::Start({.address = "127.0.0.1:0", .keepalive = server}, {&pools_});
    link_ = std::make_unique<TappedLink>(server_->port());
    stub_ =
        v1::PoolService::NewStub(MakeChannel({.address = link_->address(), .keepalive = client}));
  }
  absl::Status Leave() {
    grpc::ClientContext context;
    context.set_deadline(absl::ToChronoTime(absl::Now() + absl::Minutes(1)));
    v1::LeaveResponse response;
    return FromGrpcStatus(stub_->Leave(&context, {}, &response));
  }
  // The link becomes silent while both ends are in a call. Returns how the client's call ended; the
  // client cancels it when `give_up` returns.
  absl::Status CallAndFallSilent(const std::function<void()>& give_up) {
    grpc::ClientContext context;
    context.set_deadline(absl::ToChronoTime(absl::Now() + absl::Minutes(2)));
    v1::HeartbeatRequest request;
    v1::HeartbeatResponse response;
    absl::Status status;
    stub_->async()->Heartbeat(&context, &request, &response, [&](grpc::Status result) {
      status = FromGrpcStatus(result);
      ended_.Notify();
    });
    pools_.inside.WaitForNotification();
    link_->FallSilent();
    give_up();
    context.TryCancel();
    ended_.WaitForNotification();
    return status;
  }

  // The client's call has ended.
  absl::Notification ended_;
  HangingPools pools_;
  std::unique_ptr<Server> server_;
  std::unique_ptr<TappedLink> link_;
  std::unique_ptr<v1::PoolService::Stub> stub_;
};

TEST_F(KeepaliveTest, AClientNoticesASilentServer) {
  Connect({}, kShort);
  EXPECT_TRUE(WasSilent(CallAndFallSilent([this] { ended_.WaitForNotification(); })));
}

TEST_F(KeepaliveTest, AServerNoticesASilentClient) {
  Connect(kShort, {.time = absl::Minutes(10)});
  EXPECT_TRUE(absl::IsCancelled(CallAndFallSilent([this] { pools_.lost.WaitForNotification(); })));
}

TEST_F(KeepaliveTest, AnIdleConnectionIsKeptByItsPings) {
  Connect(kPatient, kPatient);
  EXPECT_EQ(Leave(), absl::OkStatus());
  // A server that does not accept the pings would say so at the third one.
  EXPECT_TRUE(link_->WaitForPings(5));
  EXPECT_EQ(link_->goaway(), "");
  EXPECT_EQ(Leave(), absl::OkStatus());
}

TEST_F(KeepaliveTest, PingsFarMoreOftenThanAgreedEndTheConnection) {
  Connect({.time = absl::Minutes(10)}, kPatient);
  EXPECT_EQ(Leave(), absl::OkStatus());
  EXPECT_TRUE(link_->WaitForPings(1000)) << "no GOAWAY";
  EXPECT_THAT(link_->goaway(), HasSubstr("too_many_pings"));
}

}  // namespace
}  // namespace longhaul

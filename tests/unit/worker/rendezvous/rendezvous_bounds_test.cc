// What is refused at once: by the server, whatever its client is, and by the client before it
// calls.
#include <deque>

#include "absl/synchronization/blocking_counter.h"
#include "absl/time/clock.h"
#include "common/rpc/channel.h"
#include "common/rpc/status_conversion.h"
#include "grpcpp/client_context.h"
#include "grpcpp/support/client_callback.h"
#include "longhaul/v1/rendezvous.grpc.pb.h"
#include "tests/unit/worker/rendezvous/rendezvous_testing.h"
#include "worker/rendezvous/rendezvous_limits.h"

namespace longhaul {
namespace {

// The request of the only rank of the first generation.
v1::ExchangeRequest Request() {
  v1::ExchangeRequest request;
  request.set_token(kToken);
  request.set_generation(1);
  request.set_size(1);
  return request;
}

// Sends requests that RendezvousClient would not send.
class RendezvousBoundsTest : public testing::Test {
 protected:
  absl::Status Send(const v1::ExchangeRequest& request, absl::Duration deadline = kAmple) {
    grpc::ClientContext context;
    if (deadline < absl::InfiniteDuration()) {
      context.set_deadline(absl::ToChronoTime(absl::Now() + deadline));
    }
    v1::ExchangeResponse response;
    return FromGrpcStatus(
        v1::RendezvousService::NewStub(channel_)->Exchange(&context, request, &response));
  }

  const std::unique_ptr<RendezvousServer> server_ = StartServer(1);
  const std::shared_ptr<grpc::Channel> channel_ = MakeChannel({.address = server_->address()});
};

TEST_F(RendezvousBoundsTest, AWrongTokenIsRefusedBeforeAnythingElse) {
  for (const std::string token : {"", "secre", "secret ", "Secret"}) {
    v1::ExchangeRequest request = Request();
    request.set_token(token);
    request.set_rank(7);
    EXPECT_TRUE(absl::IsUnauthenticated(Send(request))) << token;
  }
  RendezvousClient guess(
      {.address = server_->address(), .token = "guess", .generation = 1, .size = 1});
  EXPECT_TRUE(absl::IsUnauthenticated(guess.Exchange(0, "", kAmple).status()));
  EXPECT_EQ(Send(Request()), absl::OkStatus());
}

TEST_F(RendezvousBoundsTest, RanksAndSizesOutOfRangeAreRefused) {
  for (const int rank : {-1, 1, 1 << 30}) {
    v1::ExchangeRequest request = Request();
    request.set_rank(rank);
    EXPECT_TRUE(absl::IsInvalidArgument(Send(request))) << rank;
  }
  for (const int size : {-1, 0, 2, 1 << 30}) {
    v1::ExchangeRequest request = Request();
    request.set_size(size);
    EXPECT_TRUE(absl::IsInvalidArgument(Send(request))) << size;
  }
  EXPECT_EQ(Send(Request()), absl::OkStatus());
}

TEST_F(RendezvousBoundsTest, ABlobHas64KiBAtMost) {
  v1::ExchangeRequest request = Request();
  request.set_blob(std::string(kRendezvousBlobBytesMax + 1, 'x'));
  EXPECT_TRUE(absl::IsInvalidArgument(Send(request)));
  request.set_blob(std::string(2 * kRendezvousBlobBytesMax, 'x'));
  EXPECT_TRUE(absl::IsResourceExhausted(Send(request))) << "larger than any request";
  request.set_blob(std::string(kRendezvousBlobBytesMax, 'x'));
  EXPECT_EQ(Send(request), absl::OkStatus());
}

TEST_F(RendezvousBoundsTest, ACallNeedsADeadline) {
  EXPECT_TRUE(absl::IsInvalidArgument(Send(Request(), absl::InfiniteDuration())));
  EXPECT_TRUE(absl::IsInvalidArgument(Send(Request(), 2 * kRendezvousWaitMax)));
  EXPECT_EQ(Send(Request(), kRendezvousTimeoutMax), absl::OkStatus());
}

// The server refuses a call that may wait for longer (ACallNeedsADeadline).
TEST_F(RendezvousBoundsTest, AClientThatIsToldToWaitForeverWaitsForAsLongAsTheServerAllows) {
  EXPECT_TRUE(Exchange(server_->address(), 1, 0, absl::InfiniteDuration()).ok());
}

TEST_F(RendezvousBoundsTest, TheClientRefusesTheSameRequestsBeforeItCalls) {
  const std::string nobody = "127.0.0.1:1";
  const auto refuses = [&](const RendezvousClient::Options& options, int rank,
                           const std::string& blob) {
    return absl::IsInvalidArgument(RendezvousClient(options).Exchange(rank, blob, kAmple).status());
  };
  EXPECT_TRUE(refuses({.address = nobody, .token = kToken, .size = 1}, 1, ""));
  EXPECT_TRUE(refuses({.address = nobody, .token = kToken, .size = 1}, -1, ""));
  EXPECT_TRUE(refuses({.address = nobody, .token = kToken, .size = 0}, 0, ""));
  EXPECT_TRUE(refuses({.address = nobody, .token = kToken, .size = 257}, 0, ""));
  EXPECT_TRUE(refuses({.address = nobody, .token = "", .size = 1}, 0, ""));
  EXPECT_TRUE(refuses({.address = nobody, .token = std::string(65, 'x'), .size = 1}, 0, ""));
  EXPECT_TRUE(refuses({.address = "nobody", .token = kToken, .size = 1}, 0, ""));
  EXPECT_TRUE(refuses({.address = nobody, .token = kToken, .size = 1}, 0,
                      std::string(kRendezvousBlobBytesMax + 1, 'x')));
}

TEST_F(RendezvousBoundsTest, TheServerRefusesOptionsOutOfRange) {
  EXPECT_TRUE(absl::IsInvalidArgument(RendezvousServer::Start({.token = ""}).status()));
  EXPECT_TRUE(
      absl::IsInvalidArgument(RendezvousServer::Start({.token = std::string(65, 'x')}).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(
      RendezvousServer::Start({.address = "127.0.0.1", .token = kToken}).status()));
  EXPECT_TRUE(absl::IsUnavailable(
      RendezvousServer::Start({.address = server_->address(), .token = kToken}).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(server_->StartGeneration(2, 0)));
  EXPECT_TRUE(absl::IsInvalidArgument(server_->StartGeneration(2, 257)));
  EXPECT_EQ(Send(Request()), absl::OkStatus()) << "the first generation has not ended";
}

TEST_F(RendezvousBoundsTest, PlaintextBeyondLocalhostMustBeAllowed) {
  EXPECT_TRUE(absl::IsInvalidArgument(
      RendezvousServer::Start({.address = "0.0.0.0:0", .token = kToken}).status()));
  const auto server = RendezvousServer::Start(
      {.address = "0.0.0.0:0", .allow_plaintext_beyond_localhost = true, .token = kToken});
  ASSERT_TRUE(server.ok()) << server.status();
  ASSERT_EQ((*server)->StartGeneration(1, 1), absl::OkStatus());
  EXPECT_TRUE(Exchange(absl::StrCat("127.0.0.1:", (*server)->port()), 1, 0).ok());
}

// All ranks but the last call from here, and drop their answers, so that only one answer is held.
TEST_F(RendezvousBoundsTest, AnAnswerMayBeLargerThanAnyOtherMessage) {
  constexpr int kSize = 65;
  static_assert(kSize * kRendezvousBlobBytesMax > kControlMessageBytesMax);
  ASSERT_EQ(server_->StartGeneration(1, kSize), absl::OkStatus());
  const auto stub = v1::RendezvousService::NewStub(
      MakeChannel({.address = server_->address(), .receive_bytes_max = 1}));
  struct Call {
    grpc::ClientContext context;
    v1::ExchangeRequest request = Request();
    v1::ExchangeResponse response;
  };
  std::deque<Call> calls(kSize - 1);
  absl::BlockingCounter left(kSize - 1);
  for (int rank = 0; rank < kSize - 1; ++rank) {
    Call& call = calls[rank];
    call.context.set_deadline(absl::ToChronoTime(absl::Now() + kAmple));
    call.request.set_size(kSize);
    call.request.set_rank(rank);
    call.request.set_blob(std::string(kRendezvousBlobBytesMax, static_cast<char>(rank)));
    stub->async()->Exchange(&call.context, &call.request, &call.response,
                            [&](const grpc::Status&) { left.DecrementCount(); });
  }
  const absl::StatusOr<Blobs> blobs = Exchange(server_->address(), kSize, kSize - 1);
  left.Wait();
  ASSERT_TRUE(blobs.ok()) << blobs.status();
  ASSERT_EQ(blobs->size(), kSize);
  for (int rank = 0; rank < kSize - 1; ++rank)
    EXPECT_EQ((*blobs)[rank], calls[rank].request.blob());
}

}  // namespace
}  // namespace longhaul

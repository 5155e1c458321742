#include <thread>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "worker/collective/tcp_rendezvous_client.h"
#include "worker/collective/tcp_rendezvous_server.h"

namespace longhaul {
namespace {

constexpr absl::Duration kAmple = absl::Seconds(60);
using Blobs = std::vector<std::string>;

std::unique_ptr<TcpRendezvousServer> StartServer(int size, uint64_t generation = 0) {
  auto server =
      TcpRendezvousServer::Start({.token = "secret", .generation = generation, .size = size});
  EXPECT_TRUE(server.ok()) << server.status();
  return *std::move(server);
}

absl::StatusOr<Blobs> Exchange(const TcpRendezvousServer& server, int size, int rank,
                               absl::Duration timeout = kAmple, uint64_t generation = 0,
                               const std::string& token = "secret") {
  TcpRendezvousClient client(
      {.port = server.port(), .token = token, .generation = generation, .size = size});
  return client.Exchange(rank, absl::StrCat("rank ", rank), timeout);
}

TEST(TcpRendezvousTest, GivesEveryRankTheBlobsOfAll) {
  const auto server = StartServer(3);
  std::vector<absl::StatusOr<Blobs>> results(3);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 3; ++rank) {
    threads.emplace_back([&, rank] { results[rank] = Exchange(*server, 3, rank); });
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& result : results) {
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_EQ(*result, (Blobs{"rank 0", "rank 1", "rank 2"}));
  }
}

TEST(TcpRendezvousTest, ServesTheNextGenerationAndRefusesTheLast) {
  const auto server = StartServer(1);
  EXPECT_TRUE(Exchange(*server, 1, 0).ok());
  EXPECT_TRUE(absl::IsFailedPrecondition(Exchange(*server, 1, 0).status()))
      << "one exchange a generation";
  server->StartGeneration(1, 1);
  EXPECT_TRUE(absl::IsFailedPrecondition(Exchange(*server, 1, 0, kAmple, 0).status()));
  EXPECT_TRUE(Exchange(*server, 1, 0, kAmple, 1).ok());
}

TEST(TcpRendezvousTest, ANewGenerationEndsTheWaitOfTheLast) {
  const auto server = StartServer(2);
  absl::StatusOr<Blobs> result;
  std::thread waiter([&] { result = Exchange(*server, 2, 0); });
  server->StartGeneration(1, 2);  // before or after the rank has come: refused both ways
  waiter.join();
  EXPECT_TRUE(absl::IsFailedPrecondition(result.status())) << result.status();
}

TEST(TcpRendezvousTest, RefusesAWrongToken) {
  const auto server = StartServer(1);
  EXPECT_TRUE(absl::IsUnauthenticated(Exchange(*server, 1, 0, kAmple, 0, "guess").status()));
  EXPECT_TRUE(Exchange(*server, 1, 0).ok());
}

TEST(TcpRendezvousTest, AMissingRankEndsInADeadlineAndMayComeBack) {
  const auto server = StartServer(2);
  EXPECT_TRUE(absl::IsDeadlineExceeded(Exchange(*server, 2, 0, absl::Milliseconds(50)).status()));
  // The rank that gave up has left: it can take part again. The server may see its end a little
  // later.
  absl::StatusOr<Blobs> first, second;
  std::thread again([&] {
    do {
      first = Exchange(*server, 2, 0);
    } while (absl::IsAlreadyExists(first.status()));
  });
  second = Exchange(*server, 2, 1);
  again.join();
  EXPECT_TRUE(first.ok()) << first.status();
  EXPECT_TRUE(second.ok()) << second.status();
}

TEST(TcpRendezvousTest, RefusesBlobsAndRanksOutOfBounds) {
  const auto server = StartServer(1);
  TcpRendezvousClient client({.port = server->port(), .token = "secret", .size = 1});
  EXPECT_TRUE(absl::IsInvalidArgument(client.Exchange(1, "", kAmple).status()));
  EXPECT_TRUE(
      absl::IsInvalidArgument(client.Exchange(0, std::string(65537, 'x'), kAmple).status()));
  EXPECT_TRUE(client.Exchange(0, std::string(65536, 'x'), kAmple).ok());
}

TEST(TcpRendezvousTest, WithoutAServerTheDeadlineEndsTheAttempts) {
  auto server = StartServer(1);
  const uint16_t port = server->port();
  server.reset();
  TcpRendezvousClient client({.port = port, .token = "secret", .size = 1});
  EXPECT_TRUE(absl::IsUnavailable(client.Exchange(0, "", absl::Milliseconds(120)).status()));
}

TEST(TcpRendezvousTest, RefusesOptionsOutOfRange) {
  EXPECT_TRUE(absl::IsInvalidArgument(TcpRendezvousServer::Start({.size = 0}).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(TcpRendezvousServer::Start({.size = 257}).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(
      TcpRendezvousServer::Start({.address = "localhost", .size = 1}).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(
      TcpRendezvousServer::Start({.token = std::string(65, 'x'), .size = 1}).status()));
}

}  // namespace
}  // namespace longhaul

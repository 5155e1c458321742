// The exchange between ranks: which ranks meet, and what ends a wait.
#include <thread>

#include "absl/time/clock.h"
#include "common/rpc/server.h"
#include "gmock/gmock.h"
#include "tests/unit/worker/rendezvous/rendezvous_testing.h"

namespace longhaul {
namespace {

constexpr absl::Duration kBrief = absl::Milliseconds(300);

TEST(RendezvousTest, GivesEveryRankTheBlobsOfAll) {
  const auto server = StartServer(3);
  std::vector<absl::StatusOr<Blobs>> results(3);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 3; ++rank) {
    threads.emplace_back([&, rank] { results[rank] = Exchange(server->address(), 3, rank); });
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& result : results) {
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_EQ(*result, (Blobs{"rank 0", "rank 1", "rank 2"}));
  }
}

TEST(RendezvousTest, ServesTheNextGenerationAndRefusesTheEarlierOne) {
  const auto server = StartServer(1);
  EXPECT_TRUE(Exchange(server->address(), 1, 0).ok());
  EXPECT_TRUE(absl::IsAborted(Exchange(server->address(), 1, 0).status()))
      << "one exchange a generation";
  EXPECT_TRUE(absl::IsNotFound(Exchange(server->address(), 1, 0, kBrief, 2).status()))
      << "it has not begun";
  ASSERT_EQ(server->StartGeneration(2, 1), absl::OkStatus());
  EXPECT_TRUE(absl::IsNotFound(Exchange(server->address(), 1, 0, kBrief, 1).status()));
  EXPECT_TRUE(Exchange(server->address(), 1, 0, kAmple, 2).ok());
}

TEST(RendezvousTest, RefusesEveryGenerationBeforeTheFirst) {
  const auto server = RendezvousServer::Start({.token = kToken});
  ASSERT_TRUE(server.ok()) << server.status();
  EXPECT_TRUE(absl::IsNotFound(Exchange((*server)->address(), 1, 0, kBrief, 0).status()));
}

TEST(RendezvousTest, ARankMayComeBeforeItsGeneration) {
  const auto server = StartServer(1);
  absl::StatusOr<Blobs> result;
  std::thread early([&] { result = Exchange(server->address(), 1, 0, kAmple, 2); });
  absl::SleepFor(absl::Milliseconds(200));
  ASSERT_EQ(server->StartGeneration(2, 1), absl::OkStatus());
  early.join();
  EXPECT_TRUE(result.ok()) << result.status();
}

TEST(RendezvousTest, ANewGenerationEndsTheWaitsOfTheEarlierOne) {
  const auto server = StartServer(2);
  absl::StatusOr<Blobs> result;
  std::thread waiter([&] { result = Exchange(server->address(), 2, 0); });
  AwaitWaiting(*server, 1);
  ASSERT_EQ(server->StartGeneration(2, 2), absl::OkStatus());
  waiter.join();
  EXPECT_TRUE(absl::IsAborted(result.status())) << result.status();
}

TEST(RendezvousTest, TheEndOfTheServerEndsTheWaits) {
  auto server = StartServer(2);
  const std::string address = server->address();
  absl::StatusOr<Blobs> result;
  std::thread waiter([&] { result = Exchange(address, 2, 0); });
  AwaitWaiting(*server, 1);
  server.reset();
  waiter.join();
  EXPECT_TRUE(absl::IsUnavailable(result.status())) << result.status();
  EXPECT_THAT(result.status().message(), testing::HasSubstr("the agent ends"));
}

TEST(RendezvousTest, TwoCallsOfOneRankAreNotBothTaken) {
  const auto server = StartServer(2);
  absl::StatusOr<Blobs> first;
  std::thread waiter([&] { first = Exchange(server->address(), 2, 0); });
  AwaitWaiting(*server, 1);
  EXPECT_TRUE(absl::IsAlreadyExists(Exchange(server->address(), 2, 0).status()));
  EXPECT_TRUE(Exchange(server->address(), 2, 1).ok());
  waiter.join();
  EXPECT_TRUE(first.ok()) << "who came first goes on: " << first.status();
}

TEST(RendezvousTest, AMissingRankEndsInADeadlineAndTheOtherMayComeBack) {
  const auto server = StartServer(2);
  const absl::Status late = Exchange(server->address(), 2, 0, absl::Seconds(1)).status();
  EXPECT_TRUE(absl::IsDeadlineExceeded(late)) << late;
  EXPECT_THAT(late.message(), testing::HasSubstr("not all 2 ranks"));
  // The server may see the end of the call a little later.
  AwaitWaiting(*server, 0);
  absl::StatusOr<Blobs> first;
  std::thread again([&] { first = Exchange(server->address(), 2, 0); });
  const absl::StatusOr<Blobs> second = Exchange(server->address(), 2, 1);
  again.join();
  EXPECT_TRUE(first.ok()) << first.status();
  EXPECT_TRUE(second.ok()) << second.status();
}

TEST(RendezvousTest, ARankMayComeBeforeTheServer) {
  // The port is free again.
  const std::string address = StartServer(1)->address();
  absl::StatusOr<Blobs> result;
  std::thread early([&] { result = Exchange(address, 1, 0); });
  absl::SleepFor(absl::Milliseconds(200));
  RendezvousService service(kToken);
  service.StartGeneration(1, 1);
  const auto server = Server::Start({.address = address}, {&service});
  ASSERT_TRUE(server.ok()) << server.status();
  early.join();
  EXPECT_TRUE(result.ok()) << result.status();
}

TEST(RendezvousTest, WithoutAServerTheTimeoutEndsTheAttempts) {
  const std::string address = StartServer(1)->address();
  const absl::Status status = Exchange(address, 1, 0, absl::Milliseconds(120)).status();
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_THAT(status.message(), testing::HasSubstr(address));
}

}  // namespace
}  // namespace longhaul

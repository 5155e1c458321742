// Servers and ranks of the rendezvous tests, over real gRPC on localhost.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "gtest/gtest.h"
#include "worker/rendezvous/rendezvous_client.h"
#include "worker/rendezvous/rendezvous_server.h"

namespace longhaul {

inline constexpr absl::Duration kAmple = absl::Seconds(60);
inline constexpr char kToken[] = "secret";
using Blobs = std::vector<std::string>;

inline std::unique_ptr<RendezvousServer> StartServer(int size, uint64_t generation = 1,
                                                     std::shared_ptr<const Tls> tls = nullptr) {
  auto server = RendezvousServer::Start({.tls = std::move(tls), .token = kToken});
  EXPECT_TRUE(server.ok()) << server.status();
  EXPECT_EQ((*server)->StartGeneration(generation, size), absl::OkStatus());
  return *std::move(server);
}

// The answer to a rank that brings "rank N".
inline absl::StatusOr<Blobs> Exchange(const std::string& address, int size, int rank,
                                      absl::Duration timeout = kAmple, uint64_t generation = 1) {
  RendezvousClient client(
      {.address = address, .token = kToken, .generation = generation, .size = size});
  return client.Exchange(rank, absl::StrCat("rank ", rank), timeout);
}

inline void AwaitWaiting(const RendezvousServer& server, int ranks) {
  const absl::Time deadline = absl::Now() + kAmple;
  while (server.waiting() != ranks) {
    ASSERT_LT(absl::Now(), deadline);
    absl::SleepFor(absl::Milliseconds(1));
  }
}

}  // namespace longhaul

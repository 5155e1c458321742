// The Rendezvous of a rank whose agent, or the agent of node 0, runs a TcpRendezvousServer.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "worker/collective/rendezvous.h"

namespace longhaul {

// Thread-compatible: one Exchange at a time.
class TcpRendezvousClient : public Rendezvous {
 public:
  struct Options {
    std::string address = "127.0.0.1";  // numeric
    uint16_t port = 0;
    std::string token;  // the pool's shared secret, at most kRendezvousTokenBytesMax bytes
    uint64_t generation = 0;
    int size = 0;  // of the group, at most kRendezvousRanksMax
  };
  explicit TcpRendezvousClient(Options options);

  // Also UNAUTHENTICATED: the token is wrong. DATA_LOSS: the reply is not one of a rendezvous
  // server. Tries again while nobody listens yet, until the timeout.
  absl::StatusOr<std::vector<std::string>> Exchange(int rank, std::string blob,
                                                    absl::Duration timeout) override;

 private:
  const Options options_;
};

}  // namespace longhaul

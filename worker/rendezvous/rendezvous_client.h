// The Rendezvous of a rank whose agent, or the agent of node 0, runs a RendezvousServer.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/rpc/tls.h"
#include "worker/collective/rendezvous.h"

namespace longhaul {

// Thread-safe.
class RendezvousClient : public Rendezvous {
 public:
  struct Options {
    // HOST:PORT.
    std::string address;
    // The pool's. Null: plaintext.
    std::shared_ptr<const Tls> tls;
    // See ChannelOptions.
    std::string tls_name;
    // The pool's shared secret, 1 to kRendezvousTokenBytesMax bytes.
    std::string token;
    uint64_t generation = 0;
    // The size of the group, 1 to kRanksMax.
    int size = 0;
  };
  explicit RendezvousClient(Options options);

  // While no server listens yet, or the generation has not begun, it tries again until the timeout.
  // Then it returns UNAVAILABLE or NOT_FOUND. Timeouts above kRendezvousTimeoutMax are cut to it.
  // Also:
  //   UNAUTHENTICATED   the token is wrong
  //   INVALID_ARGUMENT  an option is out of range or malformed, or the group's size is another one
  //   DATA_LOSS         the answer is not one of a rendezvous of this size
  absl::StatusOr<std::vector<std::string>> Exchange(int rank, std::string blob,
                                                    absl::Duration timeout) override;

 private:
  const Options options_;
};

}  // namespace longhaul

// Where the ranks of a pool exchange their addresses. The agent of node 0 runs it, so it outlives
// its ranks: each start of the rank processes is a generation, with one exchange.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace longhaul {

// Thread-safe. Owns one thread, which alone touches the sockets. A connection is closed when its
// request is malformed, is not complete within a few seconds, or has the wrong token; their number
// is bounded.
class TcpRendezvousServer {
 public:
  struct Options {
    std::string address = "127.0.0.1";  // numeric, of the interface to listen on
    uint16_t port = 0;                  // 0: any free one
    std::string token;        // shared secret of the ranks, at most kRendezvousTokenBytesMax bytes
    uint64_t generation = 0;  // the first
    int size = 0;             // ranks that take part, 1 to kRendezvousRanksMax
  };

  // INVALID_ARGUMENT: an option is out of range. UNAVAILABLE: cannot listen.
  static absl::StatusOr<std::unique_ptr<TcpRendezvousServer>> Start(Options options);
  // Closes all connections and joins the thread.
  ~TcpRendezvousServer();

  uint16_t port() const;

  // Ends the current exchange: ranks that wait in it, and those of its generation that come later,
  // get FAILED_PRECONDITION. `size` ranks (1 to kRendezvousRanksMax) of `generation` are served
  // from now on.
  void StartGeneration(uint64_t generation, int size);

 private:
  class Loop;
  explicit TcpRendezvousServer(std::unique_ptr<Loop> loop);
  const std::unique_ptr<Loop> loop_;
};

}  // namespace longhaul

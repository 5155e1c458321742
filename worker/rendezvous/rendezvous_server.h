// The server with which the ranks of a pool exchange their addresses. The agent of node 0 runs it,
// so it outlives its ranks: each start of the rank processes is a generation, with one exchange.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/rpc/server.h"
#include "common/rpc/tls.h"
#include "worker/rendezvous/rendezvous_service.h"

namespace longhaul {

// Thread-safe. Messages and waiting calls are bounded: see rendezvous_service.h.
class RendezvousServer {
 public:
  struct Options {
    // The interface to listen on. Port 0: any free one.
    std::string address = "127.0.0.1:0";
    // The pool's. Null: plaintext.
    std::shared_ptr<const Tls> tls;
    // The first DNS name of the ranks' certificates. Empty: any that the authority issued.
    std::string peer_name;
    // Plaintext at an address that other machines can reach must be allowed explicitly, since they
    // could read the token.
    bool allow_plaintext_beyond_localhost = false;
    // Shared secret of the ranks, 1 to kRendezvousTokenBytesMax bytes.
    std::string token;
  };

  // Until the first StartGeneration, ranks of any generation get NOT_FOUND.
  //   INVALID_ARGUMENT  an option is out of range or malformed, or plaintext beyond localhost that
  //                     was not allowed
  //   UNAVAILABLE       cannot listen
  static absl::StatusOr<std::unique_ptr<RendezvousServer>> Start(const Options& options);
  // Ranks that wait get UNAVAILABLE. Blocks until they were told, at most a second.
  ~RendezvousServer();

  // How many ranks have come and wait for the others.
  int waiting() const { return service_.waiting(); }

  int port() const { return server_->port(); }
  // HOST:PORT, for ranks on this machine.
  const std::string& address() const { return server_->address(); }

  // Ends the current exchange: ranks that wait in it get ABORTED, and ranks of its
  // generation that come later get NOT_FOUND. From now on `size` ranks of `generation` are served.
  //   INVALID_ARGUMENT  size is not 1 to kRanksMax; nothing has changed
  absl::Status StartGeneration(uint64_t generation, int size);

 private:
  explicit RendezvousServer(const Options& options) : service_(options.token, options.peer_name) {}

  RendezvousService service_;
  std::unique_ptr<Server> server_;
};

}  // namespace longhaul

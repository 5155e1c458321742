// A gloo context whose ranks are connected pairwise, made with one exchange of addresses.
//
// Trust: gloo's listening ports take no credentials, and a frame that nobody expects ends the
// process. They are open while connecting, on `hostname` alone; the network between the ranks of a
// pool must be private.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "gloo/context.h"
#include "gloo/transport/context.h"
#include "worker/collective/rendezvous.h"

namespace longhaul {

// Externally synchronised while connecting; afterwards as gloo::Context.
class GlooContext : public gloo::Context {
 public:
  // Blocks for at most about `timeout`. `hostname` is a numeric address of this machine that the
  // peers can reach. The errors of Rendezvous::Exchange; INVALID_ARGUMENT: a peer's blob has the
  // wrong size; UNAVAILABLE: a connection failed; DEADLINE_EXCEEDED: a peer did not connect. The
  // last two name the peer.
  static absl::StatusOr<std::unique_ptr<GlooContext>> Connect(int rank, int size,
                                                              const std::string& hostname,
                                                              Rendezvous& rendezvous,
                                                              absl::Duration timeout);

  // Whether the connection to `peer` has failed. Only for a context about to be closed: it leaves a
  // receive behind.
  bool HasFailed(int peer);

 private:
  using gloo::Context::Context;

  std::string Listen(const std::string& hostname, absl::Duration timeout);
  absl::Status ConnectPairs(const std::vector<std::string>& blobs, absl::Duration timeout);

  std::unique_ptr<gloo::transport::UnboundBuffer> probe_;
  char probe_byte_ = 0;
};

}  // namespace longhaul

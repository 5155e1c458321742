// A gloo context whose ranks are connected pairwise, made with one exchange of addresses.
//
// Trust: gloo's listening ports need no credentials, and an unexpected frame ends the process. They
// are open only while connecting, and only on `hostname`. The network between the ranks of a pool
// must be private.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "gloo/context.h"
#include "gloo/transport/context.h"
#include "worker/collective/rendezvous.h"
#include "worker/collective/steady_deadline.h"

namespace longhaul {

// Externally synchronised while connecting; afterwards as gloo::Context.
class GlooContext : public gloo::Context {
 public:
  // Blocks for at most about `timeout`. `hostname` is a numeric address of this machine that the
  // peers can reach. Errors: those of Rendezvous::Exchange; INTERNAL: this rank cannot listen
  // there; INVALID_ARGUMENT: a peer's blob has the wrong size; UNAVAILABLE: a connection
  // failed; DEADLINE_EXCEEDED: a peer did not connect. The last two name the peer.
  static absl::StatusOr<std::unique_ptr<GlooContext>> Connect(int rank, int size,
                                                              const std::string& hostname,
                                                              Rendezvous& rendezvous,
                                                              absl::Duration timeout);

  // Whether the connection to `peer` has failed. It leaves a receive open, so the context must be
  // closed afterwards.
  bool HasFailed(int peer);

 private:
  using gloo::Context::Context;

  std::string Listen(const std::string& hostname, absl::Duration timeout);
  absl::Status ConnectPairs(const std::vector<std::string>& blobs, SteadyDeadline deadline);

  std::unique_ptr<gloo::transport::UnboundBuffer> probe_;
  char probe_byte_ = 0;
};

}  // namespace longhaul

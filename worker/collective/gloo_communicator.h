// The Communicator of CPU ranks: TCP between processes, through libgloo's transport.
//
// The collectives are direct exchanges in segments of 1 MiB, a few in flight: every rank sends each
// peer what that peer needs, and sums what it receives in rank order. gloo's own collectives are
// not used: they cannot be aborted, and the order of their sums depends on the position in the
// buffer.
//
// A peer that dies is noticed within milliseconds, by every rank. One that is stopped, or whose
// machine vanished without closing its connections, is noticed by the deadline of the operation.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "worker/collective/communicator.h"
#include "worker/collective/rendezvous.h"

namespace longhaul {

struct GlooCommunicatorOptions {
  int rank = 0;
  int size = 0;
  std::string hostname = "127.0.0.1";  // numeric address of this machine, reachable by the peers
  Rendezvous* rendezvous = nullptr;    // used during the call only
  absl::Duration timeout;              // for connecting, and the barrier that ends it
};

// Blocks until all ranks are connected. Has two threads of its own (gloo's I/O and the sentinel).
// The errors of Rendezvous::Exchange and of Communicator::Barrier; also FAILED_PRECONDITION: gloo's
// symbols resolve to another library (CheckGlooSymbols), or SIGPIPE has its default action, with
// which a peer's death would end this process: the program calls signal(SIGPIPE, SIG_IGN) at start.
absl::StatusOr<std::unique_ptr<Communicator>> MakeGlooCommunicator(
    const GlooCommunicatorOptions& options);

}  // namespace longhaul

// The Communicator of CPU ranks: TCP between processes, with libgloo's transport.
//
// The collectives are direct exchanges in segments of 1 MiB, a few at a time: every rank sends each
// peer what that peer needs, and sums what it receives in rank order. gloo's own collectives are
// not used: they cannot be aborted, and the order of their sums depends on the position in the
// buffer.
//
// If a peer dies, every rank notices within milliseconds. If a peer is stopped, or its machine
// vanished without closing its connections, the operation's deadline ends the wait.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/thread_team.h"
#include "worker/collective/communicator.h"
#include "worker/collective/rendezvous.h"

namespace longhaul {

struct GlooCommunicatorOptions {
  int rank = 0;
  int size = 0;
  // Numeric address of this machine that the peers can reach.
  std::string hostname = "127.0.0.1";
  // Used only during the call.
  Rendezvous* rendezvous = nullptr;
  // For connecting, and for the barrier at its end.
  absl::Duration timeout;
  // Its threads add what arrives. Outlives the communicator. Null: no other threads.
  ThreadTeam* team = nullptr;
};

// Blocks until all ranks are connected. Has two threads of its own (gloo's I/O and the sentinel).
// Errors: those of Rendezvous::Exchange and of Communicator::Barrier; also INTERNAL if this
// rank cannot listen on `hostname`, and FAILED_PRECONDITION if gloo's symbols resolve to another
// library (CheckGlooSymbols), or if SIGPIPE has its default action. With that action the death of a
// peer would end this process: the program must call signal(SIGPIPE, SIG_IGN) at its start.
absl::StatusOr<std::unique_ptr<Communicator>> MakeGlooCommunicator(
    const GlooCommunicatorOptions& options);

}  // namespace longhaul

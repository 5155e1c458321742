// Whether this process may start the threads that it needs. gRPC, libmicrohttpd and libtorch end
// the program where they cannot start one.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace longhaul {

// Threads of gRPC, the HTTP server and ours, with some to spare; more on many cores.
int CoordinatorThreadsNeeded();
int CliThreadsNeeded();
// Of an agent and its ranks together: their limit is one.
int AgentThreadsNeeded(int ranks, int threads_of_rank);
int RankThreadsNeeded(int threads);

// Starts `needed` threads at once, and waits for their end. RESOURCE_EXHAUSTED: that many cannot be
// started; the message says how many can, and names the limits (ulimit -u, pids.max of the cgroup)
// with their values. `root`: of /proc and /sys.
absl::Status CheckThreads(int needed, const std::string& root = "");

}  // namespace longhaul

// The command line of longhaul-rank, which longhaul-worker writes: no flag has an environment
// variable, and only what the agent always gives is required.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/rpc/tls_files.h"

namespace longhaul {

struct RankFlags {
  std::string coordinator, pool, incarnation, data_dir, work_dir;
  std::string log_level = "info", log_format = "auto";
  int rank = 0, local_rank = 0, ranks = 1, threads = 1, bulk_channels = 1;
  std::vector<int> ranks_of_node;
  // The processors that the rank is bound to, as 0-3,8. Empty: any.
  std::string cpus;
  // File of measured rates. Empty: none.
  std::string update_rates;
  // Folder of inner state. Empty: none.
  std::string state_dir;
  // Seconds.
  double state_every = 60;
  // File for a timeline. Empty: none.
  std::string trace;
  // host:port. Empty with one rank.
  std::string rendezvous;
  // Of this machine.
  std::string in_pool_address = "127.0.0.1";
  // The name in node 0's certificate. Empty: the rendezvous has no TLS.
  std::string in_pool_name;
  double push_bytes_per_second = 0;
  uint64_t generation = 0;
  TlsFiles tls_files;
  // File to which the figures of this machine are written (worker/measure), in place of training.
  // Empty: it trains.
  std::string measure;
  // Ranks of the node, with `measure`; and the end of the time for it, in seconds of the monotonic
  // clock.
  int node_ranks = 1;
  double measure_until = 0;
  // The process that started this one. 0: not known.
  pid_t agent = 0;
  double drain_seconds = 30, progress_timeout = 60, progress_factor = 20;
};

// Empty if the program must exit with *exit_code (help: 0; a mistake: kExitBadArguments). Then all
// messages were printed.
std::optional<RankFlags> ParseRankFlags(int argc, char** argv, int* exit_code);

}  // namespace longhaul

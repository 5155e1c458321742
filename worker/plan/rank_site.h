// What a rank's process has: its peers, device, threads and patience. Unlike TrainingPlan it may
// differ between ranks. Plain values.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "common/base/patience.h"
#include "common/base/thread_team.h"

namespace longhaul {

class Communicator;

// How a rank reaches its peers.
struct PoolLink {
  // Outlives the objects that use it. Null: the pool is this rank.
  Communicator* communicator = nullptr;
  // How many ranks each node has. Empty: all ranks are on one node.
  std::vector<int> ranks_of_node;
  // The communicator works on device memory (nccl). False: on host memory.
  bool on_device = false;
  // The timeout of each collective.
  absl::Duration timeout = absl::Minutes(5);
};

struct RankSite {
  PoolLink link;
  // Of a CUDA device: its number among those that this process sees.
  int device_index = 0;
  // Of torch in the whole process; and of the optimizer if `team` is null.
  int threads = 1;
  // Has `threads` threads. Null: the engine makes one.
  std::shared_ptr<ThreadTeam> team = nullptr;
  // The file for this rank's timeline. Empty: none is written.
  std::string trace_path;
  // For a wait for this rank's own device, data or threads.
  Patience patience = absl::Minutes(5);
};

}  // namespace longhaul

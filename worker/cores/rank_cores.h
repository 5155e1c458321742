// Which cores the ranks of a node compute on, and with how many threads. Pure.
#pragma once

#include <string>
#include <vector>

#include "worker/cores/host_cores.h"

namespace longhaul {

enum class CoreBinding {
  kNone,   // Ranks run on any core.
  kNode,   // On those of their NUMA nodes, where the node has several and the ranks can be spread.
  kCores,  // On cores of their own, too.
};

struct RankCores {
  int threads = 1;
  std::vector<int> processors;  // That it is to be bound to, ascending. Empty: any.
  std::vector<int> numa_nodes;  // Where these lie, ascending.
};

// By number on this node. Ranks are spread evenly over NUMA nodes, and over the cores of each; where
// there are fewer ranks than NUMA nodes a rank has several. No core is on two ranks with kCores,
// unless there are more ranks than cores.
//
// Threads: a rank's share of the cores that the host counts, so of those that are not busy, within the
// quota; at least one. `communicates`: ranks exchange with others while they compute; of kSparedFrom
// cores and more, each leaves one to that.
std::vector<RankCores> PlaceRanks(const HostCores& host, int ranks, CoreBinding binding,
                                  bool communicates);
inline constexpr int kSparedFrom = 4;

// "2 cores; rank 0: 1 thread, processors 0-1 (NUMA node 0); ...": for the log.
std::string Describe(const HostCores& host, const std::vector<RankCores>& ranks);

}  // namespace longhaul

// Which cores the ranks of a node compute on, and with how many threads. Pure.
#pragma once

#include <string>
#include <vector>

#include "worker/cores/host_cores.h"

namespace longhaul {

enum class CoreBinding {
  // Ranks run on any core.
  kNone,
  // If the machine has several NUMA nodes and the ranks can be spread over them, a rank runs on the
  // cores of its own.
  kNode,
  // Also, each rank runs on cores of its own.
  kCores,
};

struct RankCores {
  int threads = 1;
  // The processors that the rank is bound to, ascending. Empty: it is not bound.
  std::vector<int> processors;
  // The NUMA nodes of these, ascending.
  std::vector<int> numa_nodes;
};

// Returns one entry for each rank, by its number on this node. Ranks are spread evenly over the
// NUMA nodes, and over the cores of each. If there are fewer ranks than NUMA nodes, a rank has
// several nodes. With kCores no two ranks share a core, unless there are more ranks than cores.
//
// A rank's threads are its share of HostCores::count(), at least one. If `communicates`, ranks
// exchange with others while they compute: a rank with kSparedFrom cores or more leaves one of them
// to that.
std::vector<RankCores> CoresOfRanks(const HostCores& host, int ranks, CoreBinding binding,
                                    bool communicates);
inline constexpr int kSparedFrom = 4;

// "2 cores; rank 0: 1 thread, processors 0-1 (NUMA node 0); ...": for the log.
std::string Describe(const HostCores& host, const std::vector<RankCores>& ranks);

}  // namespace longhaul

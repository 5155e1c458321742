// The cores that this process may use, as the system tells: which ones (affinity and cpuset), how
// much of their time (quota of the cgroups), and on which memory they lie (NUMA).
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace longhaul {

// A physical core.
struct Core {
  // Its hardware threads that this process may use. At least one.
  std::vector<int> processors;
  int numa_node = 0;
};

struct HostCores {
  // Sorted by NUMA node, then by first processor. At least one.
  std::vector<Core> cores;
  // How many processors' time the cgroup grants. 0: no limit.
  double quota = 0;
  // How many cores other processes use (MeasureBusyCores). 0: none, or it was not measured.
  int busy = 0;
  // How many cores to compute on: those that are not busy, and not more than the quota. At least
  // one.
  int count() const;
};

// Reads the system's files below `root` (/proc, /sys). A system that tells no siblings, NUMA nodes
// or quotas counts as one without them. NOT_FOUND, INVALID_ARGUMENT: it does not say which
// processors may be used.
absl::StatusOr<HostCores> ReadHostCores(const std::string& root = "");

}  // namespace longhaul

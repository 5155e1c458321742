// The cores that this process may use, as the system tells: which ones (affinity and cpuset), how
// much of their time (quota of the cgroups), and on which memory they lie (NUMA).
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace longhaul {

// A physical core.
struct Core {
  std::vector<int> processors;  // Its threads that this process may use: at least one.
  int numa_node = 0;
};

struct HostCores {
  std::vector<Core> cores;  // By NUMA node, then by their first processor. At least one.
  // So many processors' time is granted. 0: that of all.
  double quota = 0;
  // So many cores others use: MeasureBusyCores. 0: none, or it was not measured.
  int busy = 0;
  // To be computed on: the cores that others leave, or as many as the quota lets work at once. At least
  // one.
  int count() const;
};

// `root`: of the system's files (/proc, /sys). What does not tell siblings, nodes or quotas has none.
// NOT_FOUND, INVALID_ARGUMENT: the system does not say which processors may be used.
absl::StatusOr<HostCores> ReadHostCores(const std::string& root = "");

}  // namespace longhaul

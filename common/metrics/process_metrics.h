// Figures of the kernel about a process, with the names that Prometheus's own clients use
// (process_...), and which program it is (..._build_info).
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>

#include "common/metrics/registry.h"

namespace longhaul {

struct ProcessFigures {
  // User and system.
  double cpu_seconds = 0;
  // Seconds since 1970.
  double start_time = 0;
  double resident_bytes = 0, virtual_bytes = 0;
  double threads = 0;
};
// Empty if there is no such process. 0: this one.
std::optional<ProcessFigures> ReadProcess(pid_t pid);

// Adds process_* of this process, and `build_info` (a name), whose value is 1.
void AddProcessMetrics(MetricRegistry& registry, const std::string& build_info,
                       const std::string& version);

}  // namespace longhaul

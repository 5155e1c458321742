// One run of a cluster. One seed determines its shape, jobs and faults. After a time the faults
// stop and everything is repaired. Then every job must end.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "tests/simulation/world.h"

namespace longhaul::simulation {

struct RunOptions {
  uint64_t seed = 0;
  Mutation mutation = Mutation::kNone;
  bool trace = false;
};

struct RunResult {
  std::optional<std::string> violation;
  int64_t events = 0, messages = 0, commits = 0;
  int crashes = 0, quarantined = 0, jobs_completed = 0;
  // Contributions of which the disk changed a byte.
  int struck = 0;
  // Contributions that guard.outer left out.
  int left_out = 0;
  std::string summary;  // The cluster's shape, and the state of its parts at the end.
};

RunResult RunCluster(const RunOptions& options);

}  // namespace longhaul::simulation

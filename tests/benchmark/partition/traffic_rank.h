// One rank of a pool that trains a LayeredModel with a partition, and what it counts. Without
// torch's headers.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/partition/partition_map.h"
#include "worker/collective/communicator.h"

namespace longhaul::benchmark {

struct TrafficOptions {
  PartitionMap map;
  std::vector<int> ranks_of_node;
  int accumulation = 1, steps = 1, units = 4;
  int64_t elements = 65536;  // Of a unit.
};

// JSON {"received": bytes of all steps by use and level, "scales": likewise,
// "state_bytes_per_rank", "seconds": of all steps, "collective_seconds": of their collectives by
// use, coding included}. `communicator`: null with one rank. Errors: those of Engine.
absl::StatusOr<std::string> RunTrafficRank(const TrafficOptions& options,
                                           Communicator* communicator);

}  // namespace longhaul::benchmark

// What is kept in host memory instead of on the device. Plain values.
#pragma once

#include <cstdint>
#include <string>

#include "common/plan/update_schedule.h"
#include "worker/movement/emulated_movement.h"

namespace longhaul {

// See OffloadSpec of job.proto.
struct OffloadPlan {
  // Masters and moments are kept in host memory.
  bool optimizer = false;
  // Kept weights, too. Requires `optimizer`, and weights that are split.
  bool parameters = false;
  // A negative stride: it is chosen by measurement.
  UpdateScheduleOptions schedule{.stride = -1};
  // The largest subgroup: a multiple of kSubgroupGrain, above 0 with `optimizer`.
  int64_t subgroup_elements = 0;
  // The file that keeps measured rates for the next start. Empty: they are measured at each start.
  std::string profile_path;
  // The host memory that the node's ranks may use together. 0: what the machine has left.
  int64_t host_bytes = 0;
  // Used if the device is a CPU.
  EmulatedMovement::Options emulation{.mode = EmulatedMovement::Mode::kThreads};
};

}  // namespace longhaul

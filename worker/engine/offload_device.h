// What offloading needs: the copies to and from the rank's device (Movement), the device's AdamW,
// and enough host memory.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "c10/core/Device.h"
#include "common/base/patience.h"
#include "common/base/thread_team.h"
#include "common/layout/model_layout.h"
#include "worker/engine/shard_plan.h"
#include "worker/movement/emulated_movement.h"
#include "worker/offload/device_adamw.h"
#include "worker/offload/interleaved_adamw.h"
#include "common/plan/update_schedule.h"
#include "worker/optim/optimizer_options.h"

namespace longhaul {

struct OffloadOptions {
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

struct OffloadDevice {
  std::shared_ptr<Movement> movement;
  // Updates any subgroup of the optimizer, also matrices of Muon.
  DeviceAdamW update;
  // Measured rates are those of this device.
  std::string name;
};

// On a CPU: an emulated device. `patience`: for waits for the device. FAILED_PRECONDITION: there is
// no such device, or no module for it. Others: those of MakeCudaMovement. Throws as torch does.
absl::StatusOr<OffloadDevice> OpenOffloadDevice(c10::Device device, const OffloadOptions& options,
                                                const OptimizerOptions& optimizer = {},
                                                Patience patience = absl::Minutes(5));

// FAILED_PRECONDITION: the host has too little memory for `ranks` ranks of this node that offload
// as this one does (CheckHostMemory). `plan` must have the options' subgroups.
absl::Status CheckOffloadMemory(const ModelLayout& layout, const ShardPlan& plan,
                                const OffloadOptions& options, const OptimizerOptions& optimizer,
                                c10::Device device, bool computes_in_float, int ranks);

// The options of the interleaved update for an optimizer, AdamW or Muon.
InterleavedAdamW::Options InterleavedOptionsOf(const OptimizerOptions& optimizer);

// The stride of the options. If that is negative, the best one by the rates that are measured now,
// or were kept before. For Muon: 1, since the device multiplies matrices.
absl::StatusOr<int> ChooseUpdateStride(const OffloadDevice& device, const OffloadOptions& options,
                                       const OptimizerOptions& optimizer, bool shadow, int ranks,
                                       absl::Span<const int64_t> elements, ThreadTeam& team);

}  // namespace longhaul

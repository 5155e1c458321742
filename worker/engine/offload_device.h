// What offloading needs of the rank's device: how bytes get there, and its AdamW; and whether the
// host has the memory for it.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "c10/core/Device.h"
#include "common/base/thread_team.h"
#include "common/layout/model_layout.h"
#include "worker/engine/shard_plan.h"
#include "worker/movement/emulated_movement.h"
#include "worker/offload/device_adamw.h"
#include "worker/offload/interleaved_adamw.h"
#include "worker/offload/update_schedule.h"
#include "worker/optim/optimizer_options.h"

namespace longhaul {

struct OffloadOptions {
  bool optimizer = false;   // Masters and moments rest in host memory.
  bool parameters = false;  // And the kept weights; needs `optimizer`, and weights that are split.
  // Of the update. A negative stride: chosen by measurement.
  ScheduleOptions schedule{.stride = -1};
  int64_t subgroup_elements =
      0;  // At most; a multiple of kSubgroupGrain. Above 0 with `optimizer`.
  // Of what is measured: kept here for the next start. Empty: measured each time.
  std::string profile_path;
  int64_t host_bytes = 0;  // What the node's ranks may offload. 0: what the machine has left.
  // Where the device is a CPU.
  EmulatedMovement::Options emulation{.mode = EmulatedMovement::Mode::kThreads};
};

struct OffloadDevice {
  std::shared_ptr<Movement> movement;
  DeviceAdamW update;  // Of what the optimizer has: of Muon's matrices, too.
};

// On a CPU an emulated one. FAILED_PRECONDITION: no such device, or no module for it.
// RESOURCE_EXHAUSTED, UNAVAILABLE. Throws as torch does.
absl::StatusOr<OffloadDevice> OpenOffloadDevice(c10::Device device, const OffloadOptions& options,
                                                const OptimizerOptions& optimizer = {});

// FAILED_PRECONDITION: `ranks` ranks of this node that offload as this one have no room
// (CheckHostMemory). `plan` is cut into the options' subgroups.
absl::Status CheckOffloadMemory(const ModelLayout& layout, const ShardPlan& plan,
                                const OffloadOptions& options, const OptimizerOptions& optimizer,
                                c10::Device device, bool computes_in_float, int ranks);

// What the interleaved update needs to know of an optimizer: AdamW or Muon.
InterleavedAdamW::Options InterleavedOptionsOf(const OptimizerOptions& optimizer);

// The stride of the options, or the best one by rates that are measured here, or were before. Of Muon
// 1: matrices are multiplied on the device.
absl::StatusOr<int> ChooseUpdateStride(const OffloadDevice& device, const OffloadOptions& options,
                                       const OptimizerOptions& optimizer, bool shadow, int ranks,
                                       absl::Span<const int64_t> elements, ThreadTeam& team);

}  // namespace longhaul

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
#include "worker/offload/device_adamw.h"
#include "worker/offload/interleaved_adamw.h"
#include "worker/optim/optimizer_options.h"
#include "worker/plan/offload_plan.h"

namespace longhaul {

struct OffloadDevice {
  std::shared_ptr<Movement> movement;
  // Updates any subgroup of the optimizer, also matrices of Muon.
  DeviceAdamW update;
  // Measured rates are those of this device.
  std::string name;
};

// On a CPU: an emulated device. `patience`: for waits for the device. FAILED_PRECONDITION: there is
// no such device, or no module for it. Others: those of MakeCudaMovement. Throws as torch does.
absl::StatusOr<OffloadDevice> OpenOffloadDevice(c10::Device device, const OffloadPlan& options,
                                                const OptimizerOptions& optimizer = {},
                                                Patience patience = absl::Minutes(5));

// FAILED_PRECONDITION: the host has too little memory for `ranks` ranks of this node that offload
// as this one does (CheckHostMemory). `plan` must have the options' subgroups.
absl::Status CheckOffloadMemory(const ModelLayout& layout, const ShardPlan& plan,
                                const OffloadPlan& options, const OptimizerOptions& optimizer,
                                c10::Device device, bool computes_in_float, int ranks);

// The options of the interleaved update for an optimizer, AdamW or Muon.
InterleavedAdamW::Options InterleavedOptionsOf(const OptimizerOptions& optimizer);

// The stride of the options. If that is negative, the best one by the rates that are measured now,
// or were kept before. For Muon: 1, since the device multiplies matrices.
absl::StatusOr<int> ChooseUpdateStride(const OffloadDevice& device, const OffloadPlan& options,
                                       const OptimizerOptions& optimizer, bool shadow, int ranks,
                                       absl::Span<const int64_t> elements, ThreadTeam& team);

}  // namespace longhaul

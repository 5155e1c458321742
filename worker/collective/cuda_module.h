// Loads the CUDA part of the collectives at run time. So a program runs, and stays small, on
// machines without a device.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/device/cuda_module.h"
#include "worker/collective/communicator.h"
#include "worker/collective/nccl_communicator.h"

namespace longhaul {

// MakeNcclCommunicator of the module longhaul_cuda_collective. The module is loaded once and stays.
// It is searched in `folder`, or, if that is empty, in the program's own folder and in ../lib
// beside it. FAILED_PRECONDITION: no device, or no such module (this build has LONGHAUL_CUDA off).
// Others: as MakeNcclCommunicator.
absl::StatusOr<std::unique_ptr<Communicator>> MakeNcclCommunicatorFromModule(
    const NcclCommunicatorOptions& options, const std::string& folder = "");

}  // namespace longhaul

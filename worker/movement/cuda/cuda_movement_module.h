// Loads the CUDA part of the movement engine at run time.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "worker/movement/cuda/cuda_movement.h"

namespace longhaul {

// MakeCudaMovement of the module. `folder`: see LoadCudaFunction. FAILED_PRECONDITION: no device
// ("no CUDA device ..."), or no such module. Else as MakeCudaMovement.
absl::StatusOr<std::shared_ptr<Movement>> LoadCudaMovement(const CudaMovementOptions& options,
                                                           const std::string& folder = "");

}  // namespace longhaul

#include "worker/movement/cuda/cuda_movement_module.h"

#include "common/base/status_macros.h"
#include "common/device/cuda_module.h"

namespace longhaul {

absl::StatusOr<std::shared_ptr<Movement>> LoadCudaMovement(const CudaMovementOptions& options,
                                                           const std::string& folder) {
  LH_ASSIGN_OR_RETURN(void* make, LoadCudaFunction("longhaul_cuda_movement_streams",
                                                   kLonghaulMakeCudaMovement, folder));
  return reinterpret_cast<LonghaulMakeCudaMovement*>(make)(options);
}

}  // namespace longhaul

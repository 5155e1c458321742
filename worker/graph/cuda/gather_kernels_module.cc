#include "common/base/status_macros.h"
#include "common/device/cuda_module.h"
#include "worker/graph/cuda/cuda_gather_kernels.h"

namespace longhaul {

absl::StatusOr<const GatherKernels*> LoadCudaGatherKernels(const std::string& folder) {
  LH_ASSIGN_OR_RETURN(void* get,
                      LoadCudaFunction("longhaul_cuda_gather", kLonghaulCudaGatherKernels, folder));
  return reinterpret_cast<LonghaulCudaGatherKernels*>(get)();
}

}  // namespace longhaul

#include "common/base/status_macros.h"
#include "common/device/cuda_module.h"
#include "worker/kernels/cuda/cuda_block_kernels.h"

namespace longhaul {

absl::StatusOr<const BlockKernels*> LoadCudaBlockKernels(const std::string& folder) {
  LH_ASSIGN_OR_RETURN(void* get,
                      LoadCudaFunction("longhaul_cuda_blocks", kLonghaulCudaBlockKernels, folder));
  return reinterpret_cast<LonghaulCudaBlockKernels*>(get)();
}

}  // namespace longhaul

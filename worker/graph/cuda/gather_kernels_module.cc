#include "common/base/status_macros.h"
#include "common/device/cuda_module.h"
#include "worker/graph/cuda/cuda_gather_kernels.h"

namespace longhaul {
namespace {

constexpr char kModule[] = "longhaul_cuda_gather";

}  // namespace

absl::StatusOr<const GatherKernels*> LoadCudaGatherKernels(const std::string& folder) {
  LH_ASSIGN_OR_RETURN(void* get, LoadCudaFunction(kModule, kLonghaulCudaGatherKernels, folder));
  return reinterpret_cast<LonghaulCudaGatherKernels*>(get)();
}

absl::StatusOr<const SageKernels*> LoadCudaSageKernels(const std::string& folder) {
  LH_ASSIGN_OR_RETURN(void* get, LoadCudaFunction(kModule, kLonghaulCudaSageKernels, folder));
  return reinterpret_cast<LonghaulCudaSageKernels*>(get)();
}

}  // namespace longhaul

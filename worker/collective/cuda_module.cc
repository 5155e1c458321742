#include "worker/collective/cuda_module.h"

#include "common/base/status_macros.h"

namespace longhaul {

absl::StatusOr<std::unique_ptr<Communicator>> MakeNcclCommunicatorFromModule(
    const NcclCommunicatorOptions& options, const std::string& folder) {
  LH_ASSIGN_OR_RETURN(void* make, LoadCudaFunction("longhaul_cuda_collective",
                                                   kLonghaulMakeNcclCommunicator, folder));
  return reinterpret_cast<LonghaulMakeNcclCommunicator*>(make)(options);
}

}  // namespace longhaul

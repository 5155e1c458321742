// The GatherKernels of CUDA: part of the module longhaul_cuda_gather.
#include "worker/graph/cuda/cuda_gather_kernels.h"

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/device/cuda_status.h"
#include "worker/graph/cuda/gather_kernel_launch.h"

namespace longhaul {
namespace {

class CudaGatherKernels : public GatherKernels {
 public:
  absl::Status Gather(const GatherJob& job, void* stream) const override {
    return CudaStatus(cuda::LaunchGather(job, static_cast<cudaStream_t>(stream)),
                      "gathering features");
  }

  absl::StatusOr<void*> Register(void* memory, int64_t bytes, bool written) const override {
    unsigned flags = cudaHostRegisterMapped | cudaHostRegisterPortable;
    if (!written) flags |= ReadOnlyFlag();
    const cudaError_t error = cudaHostRegister(memory, static_cast<size_t>(bytes), flags);
    if (error != cudaSuccess) {
      // It would otherwise be the result of the next call.
      cudaGetLastError();
      return absl::FailedPreconditionError(
          absl::StrCat("cannot register ", bytes,
                       " bytes of host memory with the device: ", cudaGetErrorString(error)));
    }
    void* address = nullptr;
    if (const absl::Status status = CudaStatus(cudaHostGetDevicePointer(&address, memory, 0),
                                               "the address of registered memory");
        !status.ok()) {
      cudaHostUnregister(memory);
      return status;
    }
    return address;
  }

  absl::Status Unregister(void* memory) const override {
    return CudaStatus(cudaHostUnregister(memory), "unregistering host memory");
  }

 private:
  // Where the device has it.
  static unsigned ReadOnlyFlag() {
    int device = 0, supported = 0;
    if (cudaGetDevice(&device) != cudaSuccess ||
        cudaDeviceGetAttribute(&supported, cudaDevAttrHostRegisterReadOnlySupported, device) !=
            cudaSuccess)
      return 0;
    return supported != 0 ? cudaHostRegisterReadOnly : 0;
  }
};

}  // namespace
}  // namespace longhaul

extern "C" __attribute__((visibility("default"))) const longhaul::GatherKernels*
longhaul_cuda_gather_kernels() {
  static const longhaul::CudaGatherKernels kernels;
  return &kernels;
}

// The GatherKernels and SageKernels of CUDA: the module longhaul_cuda_gather.
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

  absl::StatusOr<const void*> Register(const void* memory, int64_t bytes) const override {
    // CUDA writes to it only if a kernel does.
    void* const host = const_cast<void*>(memory);
    const cudaError_t error =
        cudaHostRegister(host, static_cast<size_t>(bytes),
                         cudaHostRegisterMapped | cudaHostRegisterPortable | ReadOnlyFlag());
    if (error != cudaSuccess) {
      // It would otherwise be the result of the next call.
      cudaGetLastError();
      return absl::FailedPreconditionError(
          absl::StrCat("cannot register ", bytes,
                       " bytes of host memory with the device: ", cudaGetErrorString(error)));
    }
    void* address = nullptr;
    if (const absl::Status status = CudaStatus(cudaHostGetDevicePointer(&address, host, 0),
                                               "the address of registered memory");
        !status.ok()) {
      cudaHostUnregister(host);
      return status;
    }
    return address;
  }

  absl::Status Unregister(const void* memory) const override {
    return CudaStatus(cudaHostUnregister(const_cast<void*>(memory)), "unregistering host memory");
  }

  absl::StatusOr<int64_t> FreeBytes() const override {
    size_t free = 0, total = 0;
    LH_RETURN_IF_ERROR(CudaStatus(cudaMemGetInfo(&free, &total), "the free memory of the device"));
    return static_cast<int64_t>(free);
  }

 private:
  // Where the device has it: it also registers mappings that this process may only read.
  static unsigned ReadOnlyFlag() {
    int device = 0, supported = 0;
    if (cudaGetDevice(&device) != cudaSuccess ||
        cudaDeviceGetAttribute(&supported, cudaDevAttrHostRegisterReadOnlySupported, device) !=
            cudaSuccess)
      return 0;
    return supported != 0 ? cudaHostRegisterReadOnly : 0;
  }
};

class CudaSageKernels : public SageKernels {
 public:
  absl::Status Aggregate(const AggregateJob& job, void* stream) const override {
    return Launch(job, stream, "summing neighbors");
  }
  absl::Status AggregateBack(const AggregateBackJob& job, void* stream) const override {
    return Launch(job, stream, "the gradient of summing neighbors");
  }
  absl::Status Dropout(const DropoutJob& job, void* stream) const override {
    return Launch(job, stream, "dropout");
  }

 private:
  template <typename Job>
  static absl::Status Launch(const Job& job, void* stream, const char* what) {
    return CudaStatus(cuda::LaunchSage(job, static_cast<cudaStream_t>(stream)), what);
  }
};

}  // namespace
}  // namespace longhaul

extern "C" __attribute__((visibility("default"))) const longhaul::GatherKernels*
longhaul_cuda_gather_kernels() {
  static const longhaul::CudaGatherKernels kernels;
  return &kernels;
}

extern "C" __attribute__((visibility("default"))) const longhaul::SageKernels*
longhaul_cuda_sage_kernels() {
  static const longhaul::CudaSageKernels kernels;
  return &kernels;
}

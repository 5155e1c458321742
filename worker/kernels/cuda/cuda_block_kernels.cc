// The BlockKernels of CUDA: part of the module longhaul_cuda_blocks.
#include "worker/kernels/cuda/cuda_block_kernels.h"

#include "common/device/cuda_status.h"
#include "worker/kernels/cuda/block_kernel_launch.h"

namespace longhaul {
namespace {

class CudaBlockKernels : public BlockKernels {
 public:
  absl::Status Rotate(const RotateJob& job, void* stream) const override {
    return CudaStatus(cuda::LaunchRotate(job, static_cast<cudaStream_t>(stream)), "rotating");
  }
  absl::Status GateForward(const GateJob& job, void* stream) const override {
    return CudaStatus(cuda::LaunchGateForward(job, static_cast<cudaStream_t>(stream)), "SwiGLU");
  }
  absl::Status GateBackward(const GateJob& job, void* stream) const override {
    return CudaStatus(cuda::LaunchGateBackward(job, static_cast<cudaStream_t>(stream)),
                      "SwiGLU's gradient");
  }
};

}  // namespace
}  // namespace longhaul

extern "C" __attribute__((visibility("default"))) const longhaul::BlockKernels*
longhaul_cuda_block_kernels() {
  static const longhaul::CudaBlockKernels kernels;
  return &kernels;
}

#include "worker/kernels/cuda/block_kernel_launch.h"
#include "worker/kernels/cuda/block_kernels-inl.h"

namespace longhaul::cuda {
namespace {

template <typename Job>
cudaError_t Launch(const KernelLaunch<Job>& launch, Job job, cudaStream_t stream) {
  if (launch.blocks == 0) return cudaSuccess;
  void* arguments[] = {&job};
  return cudaLaunchKernel(reinterpret_cast<const void*>(launch.kernel), dim3(launch.blocks),
                          dim3(kBlockThreads), arguments, 0, stream);
}

}  // namespace

cudaError_t LaunchRotate(const RotateJob& job, cudaStream_t stream) {
  return Launch(RotateLaunch(job), job, stream);
}

cudaError_t LaunchGateForward(const GateJob& job, cudaStream_t stream) {
  return Launch(GateForwardLaunch(job), job, stream);
}

cudaError_t LaunchGateBackward(const GateJob& job, cudaStream_t stream) {
  return Launch(GateBackwardLaunch(job), job, stream);
}

}  // namespace longhaul::cuda

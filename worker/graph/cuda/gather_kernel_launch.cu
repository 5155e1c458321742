#include "worker/graph/cuda/gather_kernel_launch.h"
#include "worker/graph/cuda/gather_kernels-inl.h"

namespace longhaul::cuda {

cudaError_t LaunchGather(const GatherJob& job, cudaStream_t stream) {
  GatherLaunch launch = GatherLaunchOf(job);
  if (launch.blocks == 0) return cudaSuccess;
  GatherJob copy = job;
  void* arguments[] = {&copy, &launch.shape, &launch.groups};
  return cudaLaunchKernel(reinterpret_cast<const void*>(launch.kernel), dim3(launch.blocks),
                          dim3(kGatherThreads), arguments, 0, stream);
}

}  // namespace longhaul::cuda

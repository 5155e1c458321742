#include "worker/graph/cuda/gather_kernel_launch.h"
#include "worker/graph/cuda/gather_kernels-inl.h"
#include "worker/graph/cuda/sage_kernels-inl.h"

namespace longhaul::cuda {
namespace {

template <typename Job>
cudaError_t Launch(const SageLaunch<Job>& launch, Job job, cudaStream_t stream) {
  if (launch.blocks == 0) return cudaSuccess;
  void* arguments[] = {&job};
  return cudaLaunchKernel(reinterpret_cast<const void*>(launch.kernel), dim3(launch.blocks),
                          dim3(kSageThreads), arguments, 0, stream);
}

}  // namespace

cudaError_t LaunchGather(const GatherJob& job, cudaStream_t stream) {
  GatherLaunch launch = GatherLaunchOf(job);
  if (launch.blocks == 0) return cudaSuccess;
  GatherJob copy = job;
  void* arguments[] = {&copy, &launch.shape, &launch.groups};
  return cudaLaunchKernel(reinterpret_cast<const void*>(launch.kernel), dim3(launch.blocks),
                          dim3(kGatherThreads), arguments, 0, stream);
}

cudaError_t LaunchSage(const AggregateJob& job, cudaStream_t stream) {
  return Launch(SageLaunchOf(job), job, stream);
}

cudaError_t LaunchSage(const AggregateBackJob& job, cudaStream_t stream) {
  return Launch(SageLaunchOf(job), job, stream);
}

cudaError_t LaunchSage(const DropoutJob& job, cudaStream_t stream) {
  return Launch(SageLaunchOf(job), job, stream);
}

}  // namespace longhaul::cuda

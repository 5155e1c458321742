// Launches the kernels of gather_kernels-inl.h and sage_kernels-inl.h on a stream of the current
// device. Does not wait; an error is that of the launch.
#pragma once

#include "cuda_runtime_api.h"
#include "worker/graph/cuda/gather_kernels.h"
#include "worker/graph/cuda/sage_kernels.h"

namespace longhaul::cuda {

cudaError_t LaunchGather(const GatherJob& job, cudaStream_t stream);
cudaError_t LaunchSage(const AggregateJob& job, cudaStream_t stream);
cudaError_t LaunchSage(const AggregateBackJob& job, cudaStream_t stream);
cudaError_t LaunchSage(const DropoutJob& job, cudaStream_t stream);

}  // namespace longhaul::cuda

// Launches the kernels of block_kernels-inl.h on a stream of the current device. Does not wait; an
// error is that of the launch.
#pragma once

#include "cuda_runtime_api.h"
#include "worker/kernels/cuda/block_kernels.h"

namespace longhaul::cuda {

cudaError_t LaunchRotate(const RotateJob& job, cudaStream_t stream);
cudaError_t LaunchGateForward(const GateJob& job, cudaStream_t stream);
cudaError_t LaunchGateBackward(const GateJob& job, cudaStream_t stream);

}  // namespace longhaul::cuda

// The symbol that LoadCudaGatherKernels looks up in the module longhaul_cuda_gather.
#pragma once

#include "worker/graph/cuda/gather_kernels.h"

extern "C" {
using LonghaulCudaGatherKernels = const longhaul::GatherKernels*();
}
inline constexpr char kLonghaulCudaGatherKernels[] = "longhaul_cuda_gather_kernels";

// The symbols that LoadCudaGatherKernels and LoadCudaSageKernels look up in the module
// longhaul_cuda_gather.
#pragma once

#include "worker/graph/cuda/gather_kernels.h"
#include "worker/graph/cuda/sage_kernels.h"

extern "C" {
using LonghaulCudaGatherKernels = const longhaul::GatherKernels*();
using LonghaulCudaSageKernels = const longhaul::SageKernels*();
}
inline constexpr char kLonghaulCudaGatherKernels[] = "longhaul_cuda_gather_kernels";
inline constexpr char kLonghaulCudaSageKernels[] = "longhaul_cuda_sage_kernels";

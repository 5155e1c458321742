// The symbol that LoadCudaBlockKernels looks up in the module longhaul_cuda_blocks.
#pragma once

#include "worker/kernels/cuda/block_kernels.h"

extern "C" {
using LonghaulCudaBlockKernels = const longhaul::BlockKernels*();
}
inline constexpr char kLonghaulCudaBlockKernels[] = "longhaul_cuda_block_kernels";

// The symbol that LoadCudaSegmentKernels looks up in the module longhaul_cuda_codec.
#pragma once

#include "common/codec/cuda/segment_kernels.h"

extern "C" {
using LonghaulCudaSegmentKernels = const longhaul::SegmentKernels*();
}
inline constexpr char kLonghaulCudaSegmentKernels[] = "longhaul_cuda_segment_kernels";

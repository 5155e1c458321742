// Plain code that CUDA kernels compile as well as the host. constexpr functions need no mark: nvcc
// gets --expt-relaxed-constexpr.
#pragma once

#ifdef __CUDACC__
// In a CUDA source such a function is the device's alone.
#define LONGHAUL_HOST_DEVICE __device__
#else
#define LONGHAUL_HOST_DEVICE
#endif

// Marks plain code that is compiled for the host and for CUDA kernels. constexpr functions need no
// mark, since nvcc gets --expt-relaxed-constexpr.
#pragma once

#ifdef __CUDACC__
// In a CUDA source such a function is compiled for the device only.
#define LONGHAUL_HOST_DEVICE __device__
#else
#define LONGHAUL_HOST_DEVICE
#endif

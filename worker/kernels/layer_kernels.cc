// Small kernels of layers, compiled together: Highway's headers take longer to compile than each of
// them.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "worker/kernels/layer_kernels.cc"
// clang-format off: before all other includes that use Highway.
#include "hwy/foreach_target.h"
// clang-format on

#include "worker/kernels/cross_entropy-inl.h"
#include "worker/kernels/rms_norm-inl.h"
#include "worker/kernels/rotary-inl.h"
#include "worker/kernels/swiglu-inl.h"

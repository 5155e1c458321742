// Parts of a decoder block (layers.h) by a device's own kernels, differentiable by autograd. The
// results are those of layers.h, except for rounding: here all arithmetic is float32, and only
// results are rounded to the precision of the arguments, float32 or bfloat16. Thread-safe. Throw as
// torch does, also if a kernel cannot be launched. `kernels` must outlive the graph.
#pragma once

#include "ATen/core/Tensor.h"
#include "worker/kernels/cuda/block_kernels.h"
#include "worker/model/layers.h"

namespace longhaul {

// Tables in float32.
at::Tensor Rotate(const BlockKernels& kernels, const at::Tensor& x_BHTW,
                  const RotaryTables& tables);
at::Tensor SwiGlu(const BlockKernels& kernels, const at::Tensor& x_BTD, const at::Tensor& gate_FD,
                  const at::Tensor& up_FD, const at::Tensor& down_DF);

}  // namespace longhaul

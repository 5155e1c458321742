// The loss of a model's output projection, without all logits in memory at once.
#pragma once

#include <cstdint>

#include "ATen/core/Tensor.h"

namespace longhaul {

// 512 MiB in float32.
inline constexpr int64_t kLogitsMax = int64_t{1} << 27;

// CrossEntropySum(linear(x, head), targets, mask) of layers.h, differentiable by autograd. Computes
// the logits of some rows at a time, at most `logits_max` elements (but at least one row), and the
// gradients of x and head beside them, where they are wanted. V: tokens of the vocabulary.
//
// Logits are rounded to x's precision and their softmax is float32, as with those two functions.
// The gradient of the logits is rounded before it is scaled; that of head is summed over the rows
// in float32. Throws as torch does.
at::Tensor HeadLossSum(const at::Tensor& x_BTD, const at::Tensor& head_VD,
                       const at::Tensor& targets_BT, int64_t logits_max = kLogitsMax,
                       const at::Tensor& mask_BT = {});

}  // namespace longhaul

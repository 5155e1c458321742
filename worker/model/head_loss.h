// The loss of a model's output projection, without all logits in memory at once.
#pragma once

#include <cstdint>

#include "ATen/core/Tensor.h"
#include "worker/model/model.h"

namespace longhaul {

// The value of CrossEntropySum(linear(x, head), targets, mask) of layers.h. Autograd does not see
// it. Computes the logits of some rows at a time, at most `logits_max` elements (0: those of
// head_logits.h), but at least one row. Logits are rounded to x's precision and their softmax is
// float32, as with those two functions. Throws as torch does.
at::Tensor HeadLossSum(const at::Tensor& x_BTD, const at::Tensor& head_VD,
                       const at::Tensor& targets_BT, const at::Tensor& mask_BT = {},
                       int64_t logits_max = 0);

struct HeadLoss {
  // float32; and of x, in its precision.
  at::Tensor sum, of_x;
};
// The same, with gradients. `of_sum`: the gradient of the sum, float32 without dimensions. That of
// the logits is rounded to x's precision. That of head is summed over the rows in float32, in its
// place, and never rounded; nothing else of its size is allocated.
HeadLoss DifferentiateHeadLoss(const at::Tensor& x_BTD, const at::Tensor& head_VD,
                               const at::Tensor& targets_BT, const at::Tensor& mask_BT,
                               const at::Tensor& of_sum, GradientPlace of_head,
                               int64_t logits_max = 0);

}  // namespace longhaul

#include "worker/model/head_loss.h"

#include <algorithm>
#include <utility>

#include "ATen/TensorOperators.h"
#include "ATen/core/grad_mode.h"
#include "ATen/ops/addmm.h"
#include "ATen/ops/empty_like.h"
#include "ATen/ops/linear.h"
#include "ATen/ops/log_softmax.h"
#include "ATen/ops/mm.h"
#include "ATen/ops/zeros.h"
#include "common/layout/head_logits.h"

namespace longhaul {
namespace {

// Writes or adds a^T b.
void TakeProduct(const GradientPlace& place, const at::Tensor& a, const at::Tensor& b) {
  at::Tensor values = place.values;
  const int beta = place.add ? 1 : 0;
  if (b.is_cuda() && b.scalar_type() != at::kFloat) {
    at::addmm_out(values, values, a.t(), b, at::kFloat, beta);
  } else {
    // Other devices' products of bf16 round their sums.
    values.addmm_(a.t().to(at::kFloat), b.to(at::kFloat), beta);
  }
}

// `of_sum` undefined: without gradients.
HeadLoss Compute(const at::Tensor& x_BTD, const at::Tensor& head_VD, const at::Tensor& targets_BT,
                 const at::Tensor& mask_BT, const at::Tensor& of_sum, GradientPlace of_head,
                 int64_t logits_max) {
  const at::NoGradGuard no_grad;
  if (logits_max == 0) logits_max = x_BTD.is_cpu() ? kHostLogitsMax : kDeviceLogitsMax;
  const int64_t rows = std::max<int64_t>(1, logits_max / head_VD.size(0));
  const at::Tensor x_ND = x_BTD.flatten(0, 1), targets_N = targets_BT.flatten();
  at::Tensor left_out_N;
  if (mask_BT.defined()) left_out_N = mask_BT.flatten().logical_not();
  HeadLoss loss{.sum = at::zeros({}, x_ND.options().dtype(at::kFloat))};
  if (of_sum.defined()) loss.of_x = at::empty_like(x_ND);
  for (int64_t first = 0; first < x_ND.size(0); first += rows) {
    const int64_t count = std::min(rows, x_ND.size(0) - first);
    const at::Tensor x = x_ND.narrow(0, first, count);
    const at::Tensor target_N1 = targets_N.narrow(0, first, count).unsqueeze(1);
    at::Tensor log_p_NV = at::log_softmax(at::linear(x, head_VD).to(at::kFloat), -1);
    at::Tensor at_target_N1 = log_p_NV.gather(1, target_N1), left_out_N1;
    if (left_out_N.defined()) {
      left_out_N1 = left_out_N.narrow(0, first, count).unsqueeze(1);
      at_target_N1.masked_fill_(left_out_N1, 0);
    }
    loss.sum.sub_(at_target_N1.sum());
    if (!of_sum.defined()) continue;
    // Softmax, minus 1 at the target.
    log_p_NV.exp_().mul_(of_sum).scatter_add_(1, target_N1, of_sum.neg().expand({count, 1}));
    if (left_out_N1.defined()) log_p_NV.masked_fill_(left_out_N1, 0);
    const at::Tensor of_logits_NV = std::exchange(log_p_NV, {}).to(x.scalar_type());
    loss.of_x.narrow(0, first, count).copy_(at::mm(of_logits_NV, head_VD));
    TakeProduct(of_head, of_logits_NV, x);
    of_head.add = true;
  }
  if (loss.of_x.defined()) loss.of_x = loss.of_x.view(x_BTD.sizes());
  return loss;
}

}  // namespace

at::Tensor HeadLossSum(const at::Tensor& x_BTD, const at::Tensor& head_VD,
                       const at::Tensor& targets_BT, const at::Tensor& mask_BT,
                       int64_t logits_max) {
  return Compute(x_BTD, head_VD, targets_BT, mask_BT, /*of_sum=*/{}, {}, logits_max).sum;
}

HeadLoss DifferentiateHeadLoss(const at::Tensor& x_BTD, const at::Tensor& head_VD,
                               const at::Tensor& targets_BT, const at::Tensor& mask_BT,
                               const at::Tensor& of_sum, GradientPlace of_head,
                               int64_t logits_max) {
  return Compute(x_BTD, head_VD, targets_BT, mask_BT, of_sum, std::move(of_head), logits_max);
}

}  // namespace longhaul

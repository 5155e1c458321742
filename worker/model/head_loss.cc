#include "worker/model/head_loss.h"

#include <algorithm>
#include <optional>

#include "ATen/TensorOperators.h"
#include "ATen/core/grad_mode.h"
#include "ATen/ops/empty_like.h"
#include "ATen/ops/full.h"
#include "ATen/ops/linear.h"
#include "ATen/ops/log_softmax.h"
#include "ATen/ops/mm.h"
#include "ATen/ops/zeros.h"
#include "ATen/ops/zeros_like.h"
#include "torch/csrc/autograd/custom_function.h"

namespace longhaul {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::tensor_list;

// Keeps the gradients for a loss whose own gradient is 1.
class HeadLossFunction : public Function<HeadLossFunction> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x_ND,
                            const at::Tensor& head_VD, const at::Tensor& targets_N,
                            const std::optional<at::Tensor>& left_out_N, int64_t rows,
                            bool differentiable) {
    const auto wide = x_ND.options().dtype(at::kFloat);
    at::Tensor loss = at::zeros({}, wide), of_x, of_head;
    if (differentiable) {
      of_x = at::empty_like(x_ND);
      of_head = at::zeros_like(head_VD, wide);
    }
    for (int64_t first = 0; first < x_ND.size(0); first += rows) {
      const int64_t count = std::min(rows, x_ND.size(0) - first);
      const at::Tensor x = x_ND.narrow(0, first, count);
      const at::Tensor target_N1 = targets_N.narrow(0, first, count).unsqueeze(1);
      at::Tensor log_p_NV = at::log_softmax(at::linear(x, head_VD).to(at::kFloat), -1);
      at::Tensor at_target_N1 = log_p_NV.gather(1, target_N1), left_out_N1;
      if (left_out_N.has_value()) {
        left_out_N1 = left_out_N->narrow(0, first, count).unsqueeze(1);
        at_target_N1.masked_fill_(left_out_N1, 0);
      }
      loss.sub_(at_target_N1.sum());
      if (!differentiable) continue;
      // softmax - 1 at the target.
      log_p_NV.exp_().scatter_add_(1, target_N1, at::full({1, 1}, -1, wide).expand({count, 1}));
      if (left_out_N1.defined()) log_p_NV.masked_fill_(left_out_N1, 0);
      const at::Tensor of_logits_NV = log_p_NV.to(x.scalar_type());
      of_x.narrow(0, first, count).copy_(at::mm(of_logits_NV, head_VD));
      of_head.add_(at::mm(of_logits_NV.t(), x));
    }
    if (differentiable) context->save_for_backward({of_x, of_head});
    return loss;
  }

  static tensor_list backward(AutogradContext* context, const tensor_list& gradients) {
    const auto kept = context->get_saved_variables();
    const at::Tensor &of_x = kept[0], &of_head = kept[1];
    // In place, since that of the head is as large as the head in float32. There is one backward.
    return {of_x.mul(gradients[0]).to(of_x.scalar_type()),
            of_head.mul_(gradients[0]).to(of_x.scalar_type()),
            {},
            {},
            {},
            {}};
  }
};

}  // namespace

at::Tensor HeadLossSum(const at::Tensor& x_BTD, const at::Tensor& head_VD,
                       const at::Tensor& targets_BT, int64_t logits_max,
                       const at::Tensor& mask_BT) {
  const int64_t rows = std::max<int64_t>(1, logits_max / head_VD.size(0));
  const bool differentiable =
      at::GradMode::is_enabled() && (x_BTD.requires_grad() || head_VD.requires_grad());
  std::optional<at::Tensor> left_out_N;
  if (mask_BT.defined()) left_out_N = mask_BT.flatten().logical_not();
  return HeadLossFunction::apply(x_BTD.flatten(0, 1), head_VD, targets_BT.flatten(), left_out_N,
                                 rows, differentiable);
}

}  // namespace longhaul

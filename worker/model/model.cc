#include "worker/model/model.h"

#include "torch/csrc/autograd/autograd.h"
#include "worker/model/fused_pass.h"

namespace longhaul {

Model::LastUnit Model::ForwardBackward(absl::Span<const at::Tensor> weights, const at::Tensor& x,
                                       const StagedBatch& batch, const at::Tensor& of_sums,
                                       absl::Span<const GradientPlace> gradients) const {
  std::vector<at::Tensor> wanted(weights.begin(), weights.end());
  at::Tensor input;
  if (x.defined()) wanted.push_back(input = x.detach().requires_grad_());
  const int last = static_cast<int>(layout().units.size()) - 1;
  const at::Tensor sums = Forward(last, weights, input, batch);
  const std::vector<at::Tensor> result = torch::autograd::grad({sums}, wanted, {of_sums});
  for (size_t i = 0; i < gradients.size(); ++i) gradients[i].Take(result[i]);
  return {sums.detach(), input.defined() ? result.back() : at::Tensor()};
}

std::unique_ptr<FusedPass> Model::MakeFusedPass(at::ScalarType) const { return nullptr; }

}  // namespace longhaul

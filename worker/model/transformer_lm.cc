#include "worker/model/transformer_lm.h"

#include <cmath>

#include "ATen/TensorOperators.h"
#include "ATen/core/grad_mode.h"
#include "ATen/ops/embedding.h"
#include "ATen/ops/linear.h"
#include "absl/strings/match.h"
#include "c10/util/Exception.h"
#include "common/base/status_macros.h"
#include "torch/csrc/autograd/autograd.h"
#include "worker/model/block_tensors.h"
#include "worker/model/device_layers.h"
#include "worker/model/fused_decoder.h"
#include "worker/model/head_loss.h"
#include "worker/model/language_batch.h"

namespace longhaul {
namespace {

// [B, T, heads * W] -> [B, heads, T, W]
at::Tensor SplitHeads(const at::Tensor& x_BTD, int64_t heads) {
  return x_BTD.unflatten(-1, {heads, x_BTD.size(-1) / heads}).transpose(1, 2);
}

}  // namespace

absl::StatusOr<std::unique_ptr<TransformerLm>> TransformerLm::Create(const TransformerShape& shape,
                                                                     at::Device device,
                                                                     const BlockKernels* kernels) {
  LH_ASSIGN_OR_RETURN(ModelLayout layout, LayOutTransformer(shape));
  RotaryTables rotary = MakeRotaryTables(shape.context, shape.head_width(), shape.rope_theta,
                                         shape.rope_scaling, device);
  return std::unique_ptr<TransformerLm>(
      new TransformerLm(shape, std::move(layout), std::move(rotary), kernels));
}

TransformerLm::TransformerLm(const TransformerShape& shape, ModelLayout layout, RotaryTables rotary,
                             const BlockKernels* kernels)
    : shape_(shape),
      layout_(std::move(layout)),
      rotary_(std::move(rotary)),
      narrow_rotary_(InPrecision(rotary_, at::kBFloat16)),
      kernels_(kernels) {}

InitialValues TransformerLm::Initial(TensorRef ref) const {
  const TensorLayout& tensor = layout_.units[ref.unit].tensors[ref.tensor];
  if (tensor.shape.size() == 1) return {.mean = 1};
  const bool residual = absl::EndsWith(tensor.name, "o_proj.weight") ||
                        absl::EndsWith(tensor.name, "down_proj.weight");
  return {.deviation =
              residual ? 0.02 / std::sqrt(2.0 * static_cast<double>(shape_.layers)) : 0.02};
}

std::vector<TensorRef> TransformerLm::Borrowed(int unit) const {
  const bool tied_head = shape_.tie_embeddings && layout_.units[unit].kind == UnitKind::kHead;
  return tied_head ? std::vector<TensorRef>{{0, 0}} : std::vector<TensorRef>{};
}

at::Tensor TransformerLm::Forward(int unit, absl::Span<const at::Tensor> weights,
                                  const at::Tensor& x, const StagedBatch& batch) const {
  const at::Tensor& mask_B1TT = batch.tensors[kDocumentMask];
  switch (layout_.units[unit].kind) {
    case UnitKind::kEmbedding:
      return at::embedding(weights[0], batch.tensors[kInputs]);
    case UnitKind::kHead:
      return Head(weights, x, batch).unsqueeze(0);
    default:
      TORCH_CHECK(mask_B1TT.defined() == batch.tensors[kDocumentStarts].defined(),
                  "a batch with documents has their mask");
      return Block(weights, x, mask_B1TT);
  }
}

Model::LastUnit TransformerLm::ForwardBackward(absl::Span<const at::Tensor> weights,
                                               const at::Tensor& x, const StagedBatch& batch,
                                               const at::Tensor& of_sums,
                                               absl::Span<const GradientPlace> gradients) const {
  const at::Tensor input_BTD = x.detach().requires_grad_();
  const at::Tensor normed_BTD = RmsNorm(input_BTD, weights[0], shape_.norm_eps);
  const HeadLoss loss =
      DifferentiateHeadLoss(normed_BTD, weights[1], batch.tensors[kTargets],
                            batch.tensors[kLossMask], of_sums.select(0, 0), gradients[1]);
  const std::vector<at::Tensor> result =
      torch::autograd::grad({normed_BTD}, {weights[0], input_BTD}, {loss.of_x});
  gradients[0].Take(result[0]);
  return {loss.sum.unsqueeze(0), result[1]};
}

void TransformerLm::Derive(std::vector<NamedValue>& means, absl::Span<const double>) const {
  means.push_back({"perplexity", std::exp(means[0].value)});
}

void TransformerLm::Prepare(StagedBatch& batch, at::ScalarType compute) const {
  const at::Tensor& starts_BT = batch.tensors[kDocumentStarts];
  if (starts_BT.defined()) batch.tensors[kDocumentMask] = DocumentMask(starts_BT, compute);
}

std::unique_ptr<FusedPass> TransformerLm::MakeFusedPass(at::ScalarType compute) const {
  if (!rotary_.cos_TW.is_cpu()) return nullptr;
  return std::make_unique<FusedDecoder>(shape_, layout_, rotary_, compute);
}

at::Tensor TransformerLm::Block(absl::Span<const at::Tensor> weights, const at::Tensor& x_BTD,
                                const at::Tensor& mask_B1TT) const {
  const at::Tensor attended_BTD = x_BTD + Attention(weights, x_BTD, mask_B1TT);
  const at::Tensor normed_BTD = RmsNorm(attended_BTD, weights[kMlpNorm], shape_.norm_eps);
  if (kernels_ == nullptr)
    return attended_BTD + SwiGlu(normed_BTD, weights[kGate], weights[kUp], weights[kDown]);
  return attended_BTD + SwiGlu(*kernels_, normed_BTD, weights[kGate], weights[kUp], weights[kDown]);
}

at::Tensor TransformerLm::Rotated(const at::Tensor& x_BHTW) const {
  if (kernels_ != nullptr) return Rotate(*kernels_, x_BHTW, rotary_);
  return Rotate(x_BHTW, x_BHTW.scalar_type() == at::kBFloat16 ? narrow_rotary_ : rotary_);
}

at::Tensor TransformerLm::Attention(absl::Span<const at::Tensor> weights, const at::Tensor& x_BTD,
                                    const at::Tensor& mask_B1TT) const {
  const at::Tensor normed_BTD = RmsNorm(x_BTD, weights[kInputNorm], shape_.norm_eps);
  at::Tensor q_BHTW = SplitHeads(at::linear(normed_BTD, weights[kQuery]), shape_.heads);
  at::Tensor k_BKTW = SplitHeads(at::linear(normed_BTD, weights[kKey]), shape_.kv_heads);
  const at::Tensor v_BKTW = SplitHeads(at::linear(normed_BTD, weights[kValue]), shape_.kv_heads);
  if (shape_.qk_norm) {
    q_BHTW = RmsNorm(q_BHTW, weights[kQueryNorm], shape_.norm_eps);
    k_BKTW = RmsNorm(k_BKTW, weights[kKeyNorm], shape_.norm_eps);
  }
  return at::linear(CausalAttention(Rotated(q_BHTW), Rotated(k_BKTW), v_BKTW, mask_B1TT),
                    weights[kOutput]);
}

at::Tensor TransformerLm::Head(absl::Span<const at::Tensor> weights, const at::Tensor& x_BTD,
                               const StagedBatch& batch) const {
  const at::Tensor &targets_BT = batch.tensors[kTargets], &mask_BT = batch.tensors[kLossMask];
  const at::Tensor normed_BTD = RmsNorm(x_BTD, weights[0], shape_.norm_eps);
  if (!at::GradMode::is_enabled()) return HeadLossSum(normed_BTD, weights[1], targets_BT, mask_BT);
  return CrossEntropySum(at::linear(normed_BTD, weights[1]).to(at::kFloat), targets_BT, mask_BT);
}

}  // namespace longhaul

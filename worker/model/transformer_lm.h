// A Llama-style decoder language model (Touvron et al., arXiv 2302.13971): token embedding, blocks
// (RMSNorm, rotary positions, grouped-query attention, SwiGLU), final norm and output projection.
// Its tensors and their order are those of LayOutTransformer, its batches LanguageBatch. Immutable,
// so thread-safe.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "worker/kernels/cuda/block_kernels.h"
#include "worker/model/layers.h"
#include "worker/model/model.h"

namespace longhaul {

class TransformerLm : public Model {
 public:
  // With `kernels`, which must outlive it, the model rotates and gates by the device's own kernels
  // (device_layers.h); else it consists of torch's operators. INVALID_ARGUMENT: see
  // LayOutTransformer.
  static absl::StatusOr<std::unique_ptr<TransformerLm>> Create(
      const TransformerShape& shape, at::Device device, const BlockKernels* kernels = nullptr);

  const ModelLayout& layout() const override { return layout_; }
  // Matrices: normal with deviation 0.02; for those that write to the residual stream, divided by
  // sqrt(2 * layers) (GPT-2). Norms: 1.
  InitialValues Initial(TensorRef tensor) const override;
  std::vector<TensorRef> Borrowed(int unit) const override;
  at::Tensor Forward(int unit, absl::Span<const at::Tensor> weights, const at::Tensor& x,
                     const StagedBatch& batch) const override;
  // As Forward where autograd is off, never has all logits at once (head_loss.h).
  LastUnit ForwardBackward(absl::Span<const at::Tensor> weights, const at::Tensor& x,
                           const StagedBatch& batch, const at::Tensor& of_sums,
                           absl::Span<const GradientPlace> gradients) const override;
  // Adds "perplexity".
  void Derive(std::vector<NamedValue>& means, absl::Span<const double> counts) const override;
  // Makes the mask of the batch's documents.
  void Prepare(StagedBatch& batch, at::ScalarType compute) const override;
  std::unique_ptr<FusedPass> MakeFusedPass(at::ScalarType compute) const override;

 private:
  TransformerLm(const TransformerShape& shape, ModelLayout layout, RotaryTables rotary,
                const BlockKernels* kernels);

  at::Tensor Block(absl::Span<const at::Tensor> weights, const at::Tensor& x_BTD,
                   const at::Tensor& mask_B1TT) const;
  at::Tensor Attention(absl::Span<const at::Tensor> weights, const at::Tensor& x_BTD,
                       const at::Tensor& mask_B1TT) const;
  at::Tensor Rotated(const at::Tensor& x_BHTW) const;
  at::Tensor Head(absl::Span<const at::Tensor> weights, const at::Tensor& x_BTD,
                  const StagedBatch& batch) const;

  TransformerShape shape_;
  ModelLayout layout_;
  // In float32 and in bf16.
  RotaryTables rotary_, narrow_rotary_;
  const BlockKernels* kernels_;
};

}  // namespace longhaul

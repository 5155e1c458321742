// TransformerLm's units in hand-written kernels: embedding, blocks (FusedBlock), and the head with
// its cross-entropy. The head computes the logits of a few rows at a time, so they never exist as a
// whole.
#pragma once

#include <cstdint>
#include <vector>

#include "worker/model/activation_memory.h"
#include "worker/model/fused_block.h"
#include "worker/model/fused_pass.h"
#include "worker/model/layers.h"
#include "worker/model/products.h"

namespace longhaul {

class FusedDecoder : public FusedPass {
 public:
  // `compute`: the type of the matrices, kFloat or kBFloat16. `layout` outlives the object.
  FusedDecoder(const TransformerShape& shape, const ModelLayout& layout, const RotaryTables& rotary,
               at::ScalarType compute);

  void Begin(const StagedBatch& batch, const Options& options) override;
  void Forward(int unit, absl::Span<const at::Tensor> weights) override;
  absl::Span<const double> sums() const override { return {&loss_sum_, 1}; }
  void Backward(int unit, absl::Span<const at::Tensor> weights, GradientSlots& gradients) override;
  int64_t bytes() const override { return memory_.bytes(); }

 private:
  int64_t rows() const { return block_.rows(); }
  bool keeps_all() const { return options_.keep == Keep::kActivations; }
  void Cut(ActivationMemory::Cutter& cutter);
  // The residual stream before a block, or before the head.
  float* Stream(int64_t layer) const;
  FusedBlock BlockOf(int unit, absl::Span<const at::Tensor> weights) const;
  void Embed(const at::Tensor& table);
  void EmbedBackward(const GradientSlot& slot) const;
  WeightMatrix Matrix(const at::Tensor& first, int64_t rows, int64_t columns) const;
  // Whether one of these rows has a loss. Blocks of rows without one, as what fills up a short
  // conversation, need no logits.
  bool HasTarget(int64_t first, int64_t count) const;
  // Computes the logits of these rows, and replaces them by the gradient of the loss. Returns the
  // sum of the loss.
  double Logits(int64_t first, int64_t count);
  void HeadForward(absl::Span<const at::Tensor> weights);
  void HeadBackward(int unit, absl::Span<const at::Tensor> weights, GradientSlots& gradients);
  BlockGradients SlotsOf(int unit, GradientSlots& gradients) const;

  const TransformerShape shape_;
  const ModelLayout& layout_;
  const RotaryTables rotary_;
  const Products products_;

  // For the current pass.
  Options options_;
  BlockShape block_;
  int threads_ = 1;
  // [rows]
  std::vector<int64_t> inputs_, targets_;
  // [rows] document starts. Empty: each sequence is one document.
  std::vector<int64_t> starts_;
  double loss_sum_ = 0;

  ActivationMemory memory_;
  // The residual stream before each unit, [R, D].
  std::vector<float*> stream_;
  std::vector<BlockActivations> kept_;
  BlockScratch scratch_;
  // Gradients of the residual stream: backward reads one and writes the other.
  float *gradient_ = nullptr, *next_gradient_ = nullptr;
  // How many rows have logits at a time.
  int64_t logit_rows_ = 0;
  // The head's norm: [R, D] and [R].
  float *normed_ = nullptr, *inverse_ = nullptr;
  float *head_panels_ = nullptr, *head_panels_back_ = nullptr, *logits_ = nullptr;
  float *dnormed_ = nullptr, *head_inputs_ = nullptr, *head_pairs_ = nullptr;
  float *head_norms_ = nullptr, *converted_ = nullptr;
  // By row block.
  std::vector<double> losses_;
};

}  // namespace longhaul

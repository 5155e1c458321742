// TransformerLm's units by hand: embedding, blocks (FusedBlock), and the head with its cross-entropy,
// whose logits exist for a run of rows at a time.
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
  // `compute`: of the matrices, kFloat or kBFloat16. `layout` outlives the object.
  FusedDecoder(const TransformerShape& shape, const ModelLayout& layout, const RotaryTables& rotary,
               at::ScalarType compute);

  void Begin(const Batch& batch, const Options& options) override;
  void Forward(int unit, absl::Span<const at::Tensor> weights) override;
  double loss_sum() const override { return loss_sum_; }
  void Backward(int unit, absl::Span<const at::Tensor> weights, GradientPlaces& gradients) override;
  int64_t bytes() const override { return memory_.bytes(); }

 private:
  int64_t rows() const { return block_.rows(); }
  bool keeps_all() const { return options_.keep == Keep::kActivations; }
  void Cut(ActivationMemory::Cutter& cutter);
  // The residual stream before a block, or before the head.
  float* Stream(int64_t layer) const;
  FusedBlock BlockOf(int unit, absl::Span<const at::Tensor> weights) const;
  void Embed(const at::Tensor& table);
  void EmbedBackward(const GradientPlace& place) const;
  WeightMatrix Matrix(const at::Tensor& first, int64_t rows, int64_t columns) const;
  // Makes logits of these rows, and of them the sum of their loss and its gradient.
  double Logits(int64_t first, int64_t count);
  void HeadForward(absl::Span<const at::Tensor> weights);
  void HeadBackward(int unit, absl::Span<const at::Tensor> weights, GradientPlaces& gradients);
  BlockGradients PlacesOf(int unit, GradientPlaces& gradients) const;

  const TransformerShape shape_;
  const ModelLayout& layout_;
  const RotaryTables rotary_;
  const Products products_;

  // Of the pass at hand.
  Options options_;
  BlockShape block_;
  int threads_ = 1;
  std::vector<int64_t> inputs_, targets_;  // [rows]
  std::vector<int64_t> starts_;            // [rows], or empty: of documents.
  double loss_sum_ = 0;

  ActivationMemory memory_;
  std::vector<float*> stream_;  // [R, D] each.
  std::vector<BlockActivations> kept_;
  BlockScratch scratch_;
  // Of the stream: backward reads one and writes the other.
  float *gradient_ = nullptr, *next_gradient_ = nullptr;
  int64_t logit_rows_ = 0;                        // Whose logits exist at once.
  float *normed_ = nullptr, *inverse_ = nullptr;  // [R, D], [R]: the head's norm.
  float *head_panels_ = nullptr, *head_panels_back_ = nullptr, *logits_ = nullptr;
  float *dnormed_ = nullptr, *head_inputs_ = nullptr, *head_pairs_ = nullptr;
  float *head_norms_ = nullptr, *converted_ = nullptr;
  std::vector<double> losses_;  // Of row blocks.
};

}  // namespace longhaul

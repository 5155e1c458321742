// A decoder block's forward and backward in hand-written kernels: the same function as
// TransformerLm's block, in float32 or with bf16 weights, on the caller's memory. Dimensions as in
// layers.h; also R = B T rows, Q = (H + 2 K) W, F the width of the MLP. H W may differ from D.
//
// A task is kRowBlock rows, or for attention one sequence and key head, or a part of it where there
// are fewer of these than threads; each task runs on one thread. Sums over rows (gradients of
// norms) are made per row block, then over the blocks in their order. So the bits do not depend on
// the number of threads.
#pragma once

#include <cstdint>

#include "worker/kernels/attention.h"
#include "worker/model/activation_memory.h"
#include "worker/model/fused_pass.h"
#include "worker/model/products.h"

namespace longhaul {

inline constexpr int64_t kRowBlock = 64;

struct BlockShape {
  int64_t sequences = 0, positions = 0;
  int64_t dim = 0, heads = 0, kv_heads = 0, head_width = 0, ff_dim = 0;
  double norm_eps = 0;
  bool qk_norm = false;
  // [R], see Batch. Null: each sequence is one document.
  const int64_t* document_starts = nullptr;

  int64_t rows() const { return sequences * positions; }
  int64_t row_blocks() const { return (rows() + kRowBlock - 1) / kRowBlock; }
  int64_t attended() const { return heads * head_width; }
  // Heads that are rotated: queries and keys.
  int64_t turned_heads() const { return heads + kv_heads; }
  int64_t qkv() const { return (heads + 2 * kv_heads) * head_width; }
};

// Matrices are [out, in]. q, k and v are neighbours in memory, and so are gate and up.
struct BlockWeights {
  WeightMatrix qkv, output, gate_up, down;
  // [D]
  const float *input_norm = nullptr, *mlp_norm = nullptr;
  // [W], with qk_norm.
  const float *query_norm = nullptr, *key_norm = nullptr;
  // The rotary angles, [T, W]. Only the first W/2 columns are read.
  const float *cos = nullptr, *sin = nullptr;
};

// What backward needs of forward, besides the block's input.
struct BlockActivations {
  // [R, Q] q, k and v after norm and rotation.
  float* qkv = nullptr;
  // [R, (H + K) W] q and k before their norms, with qk_norm.
  float* unnormed = nullptr;
  // [R, H + K] of the norms of q and k.
  float* inverse_qk = nullptr;
  // [R, H W] before the output projection.
  float* attended = nullptr;
  // [B, H, T]
  float* log_sums = nullptr;
  // [R, D] the residual stream between attention and MLP.
  float* middle = nullptr;
  // [R, 2 F]. Backward overwrites it with its gradient.
  float* gate_up = nullptr;
  // [R] inverse root mean squares of RMSNorm.
  float *inverse_input = nullptr, *inverse_mlp = nullptr;

  static BlockActivations Cut(const BlockShape& shape, ActivationMemory::Cutter& cutter);
};

// Working memory that blocks share.
struct BlockScratch {
  // Panels of the four weights in the order of BlockWeights, and of the inputs of their products.
  float *weights[4] = {}, *inputs[4] = {};
  // `per_thread` floats for each thread.
  float* threads = nullptr;
  int64_t per_thread = 0;
  // Backward: [R, D], [R, H W], [R, D], [R, D], [R, F], [R, Q].
  float *dmiddle = nullptr, *dattended = nullptr, *normed_input = nullptr, *normed_mlp = nullptr;
  float *gated = nullptr, *dqkv = nullptr;
  // For GradientLeft.
  float* pairs[4] = {};
  // [row blocks, 2 D + 2 W] gradients of the norms' weights.
  float* norms = nullptr;

  static BlockScratch Cut(const BlockShape& shape, const Products& products, int threads,
                          bool backward, ActivationMemory::Cutter& cutter);
};

// The slots of the gradients of BlockWeights.
struct BlockGradients {
  GradientSlot qkv, output, gate_up, down, input_norm, mlp_norm, query_norm, key_norm;
};

class FusedBlock {
 public:
  // Copies its arguments. The memory that they point to must stay valid during the calls.
  FusedBlock(const BlockShape& shape, const Products& products, const BlockWeights& weights,
             const BlockActivations& activations, const BlockScratch& scratch)
      : s_(shape), products_(products), w_(weights), a_(activations), scratch_(scratch) {}

  // Computes y [R, D] from x [R, D], and the activations. `y` may be null: the caller does not need
  // it.
  void Forward(const float* x, float* y) const;
  // Computes dx and the weights' gradients from dy. The activations must be those of Forward(x).
  void Backward(const float* x, const float* dy, float* dx, const BlockGradients& gradients) const;

 private:
  struct Rows {
    int64_t first = 0, count = 0;
  };
  Rows RowsOf(int64_t block) const;
  // The document starts of the sequence that begins with this row.
  const int64_t* StartsOf(int64_t row) const {
    return s_.document_starts == nullptr ? nullptr : s_.document_starts + row;
  }
  float* Thread(int thread) const { return scratch_.threads + thread * scratch_.per_thread; }
  void Project(const float* x, Rows rows, float* scratch) const;
  enum class AttentionHalf { kBoth, kQueries, kKeys };
  // `task`: a sequence and key head.
  void Attend(int64_t task, const kernels::AttentionPart& part, float* scratch) const;
  void Finish(const float* x, float* y, Rows rows, float* scratch) const;
  void MlpBackward(const float* dy, int64_t block, float* scratch) const;
  void AttendBackward(int64_t task, AttentionHalf half, const kernels::AttentionPart& part,
                      float* scratch) const;
  void ProjectBackward(const float* x, float* dx, int64_t block, float* scratch) const;
  void TurnBack(Rows rows, float* norms) const;
  void WeightGradients(const float* dy, const BlockGradients& gradients) const;
  void SumNorms(const BlockGradients& gradients) const;

  const BlockShape s_;
  const Products products_;
  const BlockWeights w_;
  const BlockActivations a_;
  const BlockScratch scratch_;
};

// Computes the gradients dW of several weights on all threads, in tasks of about equal work.
void ForGradientRows(const Products& products, absl::Span<const GradientLeft> lefts,
                     absl::Span<const RightSide> rights, absl::Span<const GradientSlot> slots);

}  // namespace longhaul

// A decoder block's forward and backward by hand: the same function as TransformerLm's block, on
// memory that the caller gives. Dimensions as in layers.h; R = B T rows, Q = (H + 2 K) W, F the MLP's
// width; H W need not be D.
//
// Rows are worked on kRowBlock at a time, each run of them on one thread, attention by sequence and
// key head. Sums over rows (gradients of norms) go by those blocks, in their order.
#pragma once

#include <cstdint>

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
  const int64_t* document_starts = nullptr;  // [R] as Batch has them. Null: attention is whole.

  int64_t rows() const { return sequences * positions; }
  int64_t row_blocks() const { return (rows() + kRowBlock - 1) / kRowBlock; }
  int64_t attended() const { return heads * head_width; }
  int64_t turned_heads() const { return heads + kv_heads; }  // That have positions.
  int64_t qkv() const { return (heads + 2 * kv_heads) * head_width; }
};

// Matrices [out, in], of which q, k, v and gate, up lie one after another.
struct BlockWeights {
  WeightMatrix qkv, output, gate_up, down;
  const float *input_norm = nullptr, *mlp_norm = nullptr;  // [D]
  const float *query_norm = nullptr, *key_norm = nullptr;  // [W], with qk_norm.
  const float *cos = nullptr,
              *sin = nullptr;  // Of angles: [T, W], of which the first W/2 are read.
};

// What forward leaves for backward beside the block's input.
struct BlockActivations {
  float* qkv = nullptr;         // [R, Q] normed and turned.
  float* unnormed = nullptr;    // [R, (H + K) W], with qk_norm: q and k as projected.
  float* inverse_qk = nullptr;  // [R, H + K]
  float* attended = nullptr;    // [R, H W] before the output projection.
  float* log_sums = nullptr;    // [B, H, T]
  float* middle = nullptr;      // [R, D] the residual stream between attention and MLP.
  float* gate_up = nullptr;     // [R, 2 F]; backward puts its gradient in its place.
  float *inverse_input = nullptr, *inverse_mlp = nullptr;  // [R]

  static BlockActivations Cut(const BlockShape& shape, ActivationMemory::Cutter& cutter);
};

// Working memory that blocks share.
struct BlockScratch {
  // Right sides in panels: of the weights, in the order of BlockWeights; of the inputs of the same.
  float *weights[4] = {}, *inputs[4] = {};
  // Of each thread.
  float* threads = nullptr;
  int64_t per_thread = 0;
  // Backward: [R, D], [R, H W], [R, D], [R, D], [R, F], [R, Q].
  float *dmiddle = nullptr, *dattended = nullptr, *normed_input = nullptr, *normed_mlp = nullptr;
  float *gated = nullptr, *dqkv = nullptr;
  float* pairs[4] = {};    // Of GradientLeft.
  float* norms = nullptr;  // [row blocks, 2 D + 2 W] gradients of the norms' weights.

  static BlockScratch Cut(const BlockShape& shape, const Products& products, int threads,
                          bool backward, ActivationMemory::Cutter& cutter);
};

// Where the gradients go, as BlockWeights.
struct BlockGradients {
  GradientPlace qkv, output, gate_up, down, input_norm, mlp_norm, query_norm, key_norm;
};

class FusedBlock {
 public:
  // Everything is kept by value; pointers must stay valid for the calls.
  FusedBlock(const BlockShape& shape, const Products& products, const BlockWeights& weights,
             const BlockActivations& activations, const BlockScratch& scratch)
      : s_(shape), products_(products), w_(weights), a_(activations), scratch_(scratch) {}

  // y [R, D] of x [R, D]. Null: only the activations are wanted.
  void Forward(const float* x, float* y) const;
  // dx of dy; the activations are of this x.
  void Backward(const float* x, const float* dy, float* dx, const BlockGradients& gradients) const;

 private:
  struct Rows {
    int64_t first = 0, count = 0;
  };
  Rows RowsOf(int64_t block) const;
  // Of the sequence that begins with this row.
  const int64_t* StartsOf(int64_t row) const {
    return s_.document_starts == nullptr ? nullptr : s_.document_starts + row;
  }
  float* Thread(int thread) const { return scratch_.threads + thread * scratch_.per_thread; }
  void Project(const float* x, Rows rows, float* scratch) const;
  void Attend(int64_t task, float* scratch) const;
  void Finish(const float* x, float* y, Rows rows, float* scratch) const;
  void MlpBackward(const float* dy, int64_t block, float* scratch) const;
  void AttendBackward(int64_t task, float* scratch) const;
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

// Rows of dW that make a task of about equal work, whatever the columns.
void ForGradientRows(const Products& products, absl::Span<const GradientLeft> lefts,
                     absl::Span<const RightSide> rights, absl::Span<const GradientPlace> places);

}  // namespace longhaul

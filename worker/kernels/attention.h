// Causal attention of one key and value head with the query heads that it serves, forward and
// backward, in float32 on the caller's thread. Scores are made for a few rows of queries at a time and
// made again in backward (Dao et al., "FlashAttention"), so that memory grows with the number of
// positions T and not with its square.
//
// Position t of a head begins at data + t * stride. Queries and keys are scaled by 1 / sqrt(width)
// here. Several documents may lie one after another: then work grows with the squares of their
// lengths, and nothing of one changes a bit of another.
#pragma once

#include <cstdint>

namespace longhaul::kernels {

struct AttentionShape {
  int64_t positions = 0, width = 0;
  int64_t query_heads = 0;  // That share the key head; side by side, `width` apart.
};

// Queries whose probabilities backward has at once, to make the keys' gradients of them.
inline constexpr int64_t kQueryBlock = 64;

// Elements of working memory for a call.
int64_t AttentionScratch(const AttentionShape& shape);

struct AttentionInputs {
  const float *q = nullptr, *k = nullptr, *v = nullptr;
  int64_t stride = 0;  // Of all three.
  // [positions]: the first position that each one sees, that of its document: starts[t] <= t, never
  // falling, and each of them its own start. Null: all see position 0.
  const int64_t* starts = nullptr;

  int64_t StartOf(int64_t position) const { return starts == nullptr ? 0 : starts[position]; }
};

// out: at position t, head h of the group: out[t * out_stride + h * width ...]. Writes the log of the
// sum of the exponentials, log_sum[h * positions + t].
void AttentionForward(const AttentionShape& shape, const AttentionInputs& inputs, float* out,
                      int64_t out_stride, float* log_sum, float* scratch);

struct AttentionGradients {
  float *dq = nullptr, *dk = nullptr, *dv = nullptr;  // Are overwritten.
  int64_t stride = 0;                                 // Of all three.
};
// `out` and `log_sum` as forward wrote them; dout lies as out does.
void AttentionBackward(const AttentionShape& shape, const AttentionInputs& inputs, const float* out,
                       const float* dout, int64_t out_stride, const float* log_sum,
                       const AttentionGradients& gradients, float* scratch);

}  // namespace longhaul::kernels

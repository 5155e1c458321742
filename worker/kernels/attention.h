// Causal attention of one key and value head with the query heads that share it, forward and
// backward, in float32. For a query at position t, the softmax runs over the keys s with start(t)
// <= s <= t:
//   p_s = softmax_s(q_t . k_s / sqrt(width)) ;  out_t = sum_s p_s v_s
// The scores of a few query rows are computed at a time, and again in backward (Dao et al.,
// "FlashAttention", arXiv 2205.14135). So memory grows with the number of positions T, and not with
// its square.
//
// Position t of a head begins at data + t * stride. Several documents may lie one after another.
// Then work grows with the squares of their lengths, and the values of one document do not change a
// bit of another's results.
//
// Several threads may share the work: each computes a part, with scratch of its own, and the
// results have the bits of the whole. The two halves of backward that can be cut compute the scores
// twice, which is two fifths more work.
//
// Pure functions on the caller's thread and memory; thread-safe. Outputs, gradients and scratch
// must not overlap the inputs. Tests hold the results to within 1e-5 max(1, |x|) of a
// double-precision reference, for inputs in [-1, 1).
#pragma once

#include <cstdint>

namespace longhaul::kernels {

struct AttentionShape {
  int64_t positions = 0, width = 0;
  // The query heads that share the key head. They lie side by side, `width` elements apart.
  int64_t query_heads = 0;
};

// Backward keeps the probabilities of so many queries at a time, and computes the keys' gradients
// from them.
inline constexpr int64_t kQueryBlock = 64;

// Every `parts`-th block of queries, or panel of keys: all parts have about the same work, though
// later queries see more keys.
struct AttentionPart {
  int64_t part = 0, parts = 1;
  bool Has(int64_t block) const { return block % parts == part; }
};

// The size of `scratch` for a call, in elements.
int64_t AttentionScratch(const AttentionShape& shape);

struct AttentionInputs {
  const float *q = nullptr, *k = nullptr, *v = nullptr;
  // The distance between two positions, in elements, for all three.
  int64_t stride = 0;
  // [positions]: where the document of each position begins. starts[t] <= t, ascending, and
  // starts[starts[t]] == starts[t]. Null: there is one document, which begins at position 0.
  const int64_t* starts = nullptr;

  int64_t StartOf(int64_t position) const { return starts == nullptr ? 0 : starts[position]; }
};

// Writes the result of head h at position t to out[t * out_stride + h * width ...], and the
// logarithm of its sum of exponentials to log_sum[h * positions + t].
void AttentionForward(const AttentionShape& shape, const AttentionInputs& inputs, float* out,
                      int64_t out_stride, float* log_sum, float* scratch,
                      const AttentionPart& part = {});

struct AttentionGradients {
  // All three are overwritten.
  float *dq = nullptr, *dk = nullptr, *dv = nullptr;
  // The distance between two positions, in elements, for all three.
  int64_t stride = 0;
};
// `out` and `log_sum` are those of AttentionForward. `dout` has the layout of `out`.
void AttentionBackward(const AttentionShape& shape, const AttentionInputs& inputs, const float* out,
                       const float* dout, int64_t out_stride, const float* log_sum,
                       const AttentionGradients& gradients, float* scratch);
// The same in two halves: dq of the part's blocks of queries; dk and dv of its panels of keys.
void AttentionBackwardQueries(const AttentionShape& shape, const AttentionInputs& inputs,
                              const float* out, const float* dout, int64_t out_stride,
                              const float* log_sum, const AttentionGradients& gradients,
                              float* scratch, const AttentionPart& part);
void AttentionBackwardKeys(const AttentionShape& shape, const AttentionInputs& inputs,
                           const float* out, const float* dout, int64_t out_stride,
                           const float* log_sum, const AttentionGradients& gradients,
                           float* scratch, const AttentionPart& part);

}  // namespace longhaul::kernels

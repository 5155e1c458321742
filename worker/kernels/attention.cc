#include "worker/kernels/attention.h"

#include <algorithm>
#include <cmath>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "worker/kernels/attention.cc"
// clang-format off: before all other includes that use Highway.
#include "hwy/foreach_target.h"
// clang-format on

#include "worker/kernels/exp-inl.h"
#include "worker/kernels/gemm-inl.h"

HWY_BEFORE_NAMESPACE();
namespace longhaul::kernels::HWY_NAMESPACE {

// The scores of so many query rows are computed at once. Keys after the last of these rows are
// skipped, and so are panels of keys before the document of the first.
constexpr int64_t kQueryRows = 16;
// The score of a masked key: far below every other score, so that its exponential is zero.
constexpr float kMasked = -1e30f;

int64_t Padded(int64_t positions) {
  return (positions + kPanelColumns - 1) / kPanelColumns * kPanelColumns;
}
int64_t Rounded(int64_t n) { return (n + kStep - 1) / kStep * kStep; }
// The first position of the first panel with keys that query `t`, or any later one, attends to.
int64_t PanelBegin(const AttentionInputs& in, int64_t t) {
  return in.StartOf(t) / kPanelColumns * kPanelColumns;
}

// Packs x [positions, width] as the right side of a product whose columns are positions and whose
// depth is the width.
HWY_INLINE void PackAcross(const float* x, int64_t stride, const AttentionShape& s, float* panels) {
  for (int64_t t = 0; t < s.positions; t += kPanelColumns) {
    PackPanel({x + t * stride, 1, stride}, s.width, std::min(kPanelColumns, s.positions - t),
              kPanelColumns, panels + t * s.width);
  }
}
// Packs x [positions, width] as the right side of a product whose columns are the width and whose
// depth is positions.
HWY_INLINE void PackDown(const float* x, int64_t stride, const AttentionShape& s, float* panels) {
  for (int64_t i = 0; i < s.width; i += kPanelColumns) {
    const int64_t columns = std::min(kPanelColumns, s.width - i);
    PackPanel({x + i, stride, 1}, s.positions, columns, WidthOf(columns), panels + i * s.positions);
  }
}

// c = a [rows, width] times columns [begin, limit) of panels from PackAcross. A panel begins at
// `begin`.
HWY_INLINE void MultiplyAcross(const FloatMatrix& a, const float* panels, int64_t rows,
                               const AttentionShape& s, int64_t begin, int64_t limit, float* c,
                               int64_t c_stride) {
  for (int64_t t = begin; t < limit; t += kPanelColumns) {
    MultiplyPanel(a, rows, s.width, {panels + t * s.width, kPanelColumns, s.width},
                  std::min(kPanelColumns, limit - t), c + t, c_stride, /*add=*/false);
  }
}
// c = a [rows, depth] times positions [first, first + depth) of panels from PackDown.
HWY_INLINE void MultiplyDown(const FloatMatrix& a, const float* panels, int64_t rows,
                             const AttentionShape& s, int64_t first, int64_t depth, float* c,
                             int64_t c_stride, bool add) {
  for (int64_t i = 0; i < s.width; i += kPanelColumns) {
    const int64_t columns = std::min(kPanelColumns, s.width - i), width = WidthOf(columns);
    MultiplyPanel(a, rows, depth, {panels + i * s.positions, width, s.positions, first}, columns,
                  c + i, c_stride, add);
  }
}

HWY_INLINE void Fill(float* row, int64_t begin, int64_t end, float value) {
  for (int64_t t = begin; t < end; ++t) row[t] = value;
}

HWY_INLINE float LargestOf(const float* row, int64_t begin, int64_t end) {
  FloatVector most = hn::LoadU(kFloat, row + begin);
  for (int64_t t = begin + kLanes; t < end; t += kLanes)
    most = hn::Max(most, hn::LoadU(kFloat, row + t));
  return hn::GetLane(hn::MaxOfLanes(kFloat, most));
}

// row[t] = exp(scale row[t] - shift) for t in [begin, end). Returns the sum of these.
HWY_INLINE float Exponentials(float* row, int64_t begin, int64_t end, float scale, float shift) {
  FloatVector sum = hn::Zero(kFloat);
  for (int64_t t = begin; t < end; t += kLanes) {
    const auto e = Exp(kFloat, hn::MulSub(hn::LoadU(kFloat, row + t), hn::Set(kFloat, scale),
                                          hn::Set(kFloat, shift)));
    sum = hn::Add(sum, e);
    hn::StoreU(e, kFloat, row + t);
  }
  return hn::GetLane(hn::SumOfLanes(kFloat, sum));
}

float ScaleOf(const AttentionShape& s) {
  return static_cast<float>(1 / std::sqrt(static_cast<double>(s.width)));
}

void Attend(const AttentionShape& s, const AttentionInputs& in, float* out, int64_t out_stride,
            float* log_sum, float* scratch, const AttentionPart& part) {
  const int64_t padded = Padded(s.positions);
  float* const keys = scratch;
  float* const values = keys + padded * s.width;
  float* const scores = values + s.positions * Rounded(s.width);
  PackAcross(in.k, in.stride, s, keys);
  PackDown(in.v, in.stride, s, values);
  const float scale = ScaleOf(s);
  for (int64_t head = 0; head < s.query_heads; ++head, log_sum += s.positions) {
    const float* const q = in.q + head * s.width;
    for (int64_t first = 0; first < s.positions; first += kQueryRows) {
      if (!part.Has(first / kQueryBlock)) continue;
      const int64_t rows = std::min(kQueryRows, s.positions - first), limit = first + rows;
      const int64_t begin = PanelBegin(in, first);
      MultiplyAcross({q + first * in.stride, in.stride, 1}, keys, rows, s, begin, limit, scores,
                     padded);
      float inverse[kQueryRows];
      for (int64_t r = 0; r < rows; ++r) {
        float* const row = scores + r * padded;
        Fill(row, begin, in.StartOf(first + r), kMasked);
        Fill(row, first + r + 1, Rounded(limit), kMasked);
        const float shift = scale * LargestOf(row, begin, Rounded(limit));
        const float sum = Exponentials(row, begin, Rounded(limit), scale, shift);
        log_sum[first + r] = shift + std::log(sum);
        inverse[r] = 1 / sum;
      }
      float* const to = out + first * out_stride + head * s.width;
      MultiplyDown({scores + begin, padded, 1}, values, rows, s, begin, limit - begin, to,
                   out_stride, false);
      for (int64_t r = 0; r < rows; ++r) {
        float* const row = to + r * out_stride;
        ForLanes(s.width, [&](auto d, int64_t i) HWY_ATTR {
          hn::StoreU(hn::Mul(hn::LoadU(d, row + i), hn::Set(d, inverse[r])), d, row + i);
        });
      }
    }
  }
}

// The arguments of backward for one query head.
struct HeadBackward {
  const AttentionShape& s;
  const AttentionInputs& in;
  // Of this head.
  const float* q;
  const float *out, *dout;
  int64_t out_stride;
  const float* log_sum;
  // dq is that of this head.
  AttentionGradients g;
  float *keys_across, *values_across, *keys_down, *queries_down, *douts_down;
  // [kQueryBlock, padded]
  float *probabilities, *dscores;

  // The probabilities p of some queries for keys [begin, limit), and with dp = dout v^T the
  // gradient of their scores before scaling: ds = p (dp - dout . out). `begin` is that of a panel.
  // Computes up to Rounded(limit).
  HWY_INLINE void MakeScores(int64_t first, int64_t rows, int64_t begin, int64_t limit, float* p,
                             float* ds) const {
    const int64_t padded = Padded(s.positions), end = Rounded(limit);
    const float scale = ScaleOf(s);
    MultiplyAcross({q + first * in.stride, in.stride, 1}, keys_across, rows, s, begin, limit, p,
                   padded);
    MultiplyAcross({dout + first * out_stride, out_stride, 1}, values_across, rows, s, begin, limit,
                   ds, padded);
    for (int64_t r = 0; r < rows; ++r, p += padded, ds += padded) {
      const int64_t t = first + r;
      const float* const a = out + t * out_stride;
      const float* const b = dout + t * out_stride;
      const float dot = SumOf(s.width, [&](auto d, int64_t i) HWY_ATTR {
        return hn::Mul(hn::LoadU(d, a + i), hn::LoadU(d, b + i));
      });
      Fill(p, begin, std::min(in.StartOf(t), end), kMasked);
      Fill(p, std::max(t + 1, begin), end, kMasked);
      Fill(ds, std::max(t + 1, begin), end, 0);
      Exponentials(p, begin, end, scale, log_sum[t]);
      for (int64_t i = begin; i < end; i += kLanes) {
        const auto difference = hn::Sub(hn::LoadU(kFloat, ds + i), hn::Set(kFloat, dot));
        hn::StoreU(hn::Mul(hn::Mul(hn::LoadU(kFloat, p + i), difference), hn::Set(kFloat, scale)),
                   kFloat, ds + i);
      }
    }
  }

  // dk and dv of keys [key, limit) from the scores of queries [block, end).
  HWY_INLINE void AddKeys(int64_t block, int64_t end, int64_t key, int64_t limit) const {
    const int64_t padded = Padded(s.positions);
    // Keys after a query, and keys of earlier documents, do not count for it. Probabilities were
    // computed from the beginning of a panel on, since a product covers whole panels.
    int64_t seen_until = block;
    for (; key < limit; key += kQueryRows) {
      const int64_t keys = std::min(kQueryRows, limit - key), first = std::max(block, key);
      while (seen_until < end && in.StartOf(seen_until) < key + keys) ++seen_until;
      const int64_t queries = seen_until - first;
      const int64_t at = (first - block) * padded + key;
      MultiplyDown({probabilities + at, 1, padded}, douts_down, keys, s, first, queries,
                   g.dv + key * g.stride, g.stride, true);
      MultiplyDown({dscores + at, 1, padded}, queries_down, keys, s, first, queries,
                   g.dk + key * g.stride, g.stride, true);
    }
  }

  HWY_INLINE void PackQueries() const {
    PackDown(q, in.stride, s, queries_down);
    PackDown(dout, out_stride, s, douts_down);
  }

  // dq of the part's query blocks, and with kKeys, of all of them, dk and dv.
  template <bool kKeys>
  HWY_INLINE void RunQueries(const AttentionPart& part) const {
    const int64_t padded = Padded(s.positions);
    if (kKeys) PackQueries();
    for (int64_t block = 0; block < s.positions; block += kQueryBlock) {
      if (!part.Has(block / kQueryBlock)) continue;
      const int64_t end = std::min(s.positions, block + kQueryBlock);
      for (int64_t first = block; first < end; first += kQueryRows) {
        const int64_t rows = std::min(kQueryRows, end - first), row = (first - block) * padded;
        const int64_t begin = PanelBegin(in, first);
        MakeScores(first, rows, begin, first + rows, probabilities + row, dscores + row);
        MultiplyDown({dscores + row + begin, padded, 1}, keys_down, rows, s, begin,
                     first + rows - begin, g.dq + first * g.stride, g.stride, false);
      }
      if (kKeys) AddKeys(block, end, in.StartOf(block) / kQueryRows * kQueryRows, end);
    }
  }

  // dk and dv of the part's panels of keys. The sums have the order of RunQueries.
  HWY_INLINE void RunKeys(const AttentionPart& part) const {
    const int64_t padded = Padded(s.positions);
    PackQueries();
    for (int64_t block = 0; block < s.positions; block += kQueryBlock) {
      const int64_t end = std::min(s.positions, block + kQueryBlock);
      const int64_t start = in.StartOf(block) / kQueryRows * kQueryRows;
      for (int64_t panel = PanelBegin(in, block); panel < end; panel += kPanelColumns) {
        if (!part.Has(panel / kPanelColumns)) continue;
        const int64_t key = std::max(panel, start), limit = std::min(panel + kPanelColumns, end);
        for (int64_t first = block; first < end; first += kQueryRows) {
          const int64_t rows = std::min(kQueryRows, end - first), row = (first - block) * padded;
          const int64_t seen = std::min(limit, first + rows);
          if (seen > panel)
            MakeScores(first, rows, panel, seen, probabilities + row, dscores + row);
        }
        AddKeys(block, end, key, limit);
      }
    }
  }
};

enum class BackwardWork { kAll, kQueries, kKeys };

template <BackwardWork kWork>
HWY_INLINE void RunBackward(const AttentionShape& s, const AttentionInputs& in, const float* out,
                            const float* dout, int64_t out_stride, const float* log_sum,
                            const AttentionGradients& gradients, float* scratch,
                            const AttentionPart& part) {
  const int64_t across = Padded(s.positions) * s.width, down = s.positions * Rounded(s.width);
  HeadBackward head{.s = s,
                    .in = in,
                    .q = in.q,
                    .out = out,
                    .dout = dout,
                    .out_stride = out_stride,
                    .log_sum = log_sum,
                    .g = gradients,
                    .keys_across = scratch,
                    .values_across = scratch + across,
                    .keys_down = scratch + 2 * across,
                    .queries_down = scratch + 2 * across + down,
                    .douts_down = scratch + 2 * across + 2 * down,
                    .probabilities = scratch + 2 * across + 3 * down,
                    .dscores = scratch + 2 * across + 3 * down + kQueryBlock * Padded(s.positions)};
  PackAcross(in.k, in.stride, s, head.keys_across);
  PackAcross(in.v, in.stride, s, head.values_across);
  if (kWork != BackwardWork::kKeys) PackDown(in.k, in.stride, s, head.keys_down);
  if (kWork != BackwardWork::kQueries) {
    for (int64_t t = 0; t < s.positions; ++t) {
      if (kWork == BackwardWork::kKeys && !part.Has(t / kPanelColumns)) continue;
      Fill(gradients.dk + t * gradients.stride, 0, s.width, 0);
      Fill(gradients.dv + t * gradients.stride, 0, s.width, 0);
    }
  }
  for (int64_t i = 0; i < s.query_heads; ++i) {
    if (kWork == BackwardWork::kKeys) {
      head.RunKeys(part);
    } else {
      head.RunQueries<kWork == BackwardWork::kAll>(part);
    }
    head.q += s.width;
    head.out += s.width;
    head.dout += s.width;
    head.g.dq += s.width;
    head.log_sum += s.positions;
  }
}

void AttendBackward(const AttentionShape& s, const AttentionInputs& in, const float* out,
                    const float* dout, int64_t out_stride, const float* log_sum,
                    const AttentionGradients& gradients, float* scratch) {
  RunBackward<BackwardWork::kAll>(s, in, out, dout, out_stride, log_sum, gradients, scratch, {});
}
void QueriesBackward(const AttentionShape& s, const AttentionInputs& in, const float* out,
                     const float* dout, int64_t out_stride, const float* log_sum,
                     const AttentionGradients& gradients, float* scratch,
                     const AttentionPart& part) {
  RunBackward<BackwardWork::kQueries>(s, in, out, dout, out_stride, log_sum, gradients, scratch,
                                      part);
}
void KeysBackward(const AttentionShape& s, const AttentionInputs& in, const float* out,
                  const float* dout, int64_t out_stride, const float* log_sum,
                  const AttentionGradients& gradients, float* scratch, const AttentionPart& part) {
  RunBackward<BackwardWork::kKeys>(s, in, out, dout, out_stride, log_sum, gradients, scratch, part);
}

}  // namespace longhaul::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace longhaul::kernels {

HWY_EXPORT(Attend);
HWY_EXPORT(AttendBackward);
HWY_EXPORT(QueriesBackward);
HWY_EXPORT(KeysBackward);

int64_t AttentionScratch(const AttentionShape& s) {
  const int64_t padded = (s.positions + kPanelColumns - 1) / kPanelColumns * kPanelColumns;
  return 2 * padded * s.width + 3 * PanelElements(s.positions, s.width) + 2 * kQueryBlock * padded;
}

void AttentionForward(const AttentionShape& shape, const AttentionInputs& inputs, float* out,
                      int64_t out_stride, float* log_sum, float* scratch,
                      const AttentionPart& part) {
  HWY_DYNAMIC_DISPATCH(Attend)(shape, inputs, out, out_stride, log_sum, scratch, part);
}

void AttentionBackward(const AttentionShape& shape, const AttentionInputs& inputs, const float* out,
                       const float* dout, int64_t out_stride, const float* log_sum,
                       const AttentionGradients& gradients, float* scratch) {
  HWY_DYNAMIC_DISPATCH(AttendBackward)
  (shape, inputs, out, dout, out_stride, log_sum, gradients, scratch);
}

void AttentionBackwardQueries(const AttentionShape& shape, const AttentionInputs& inputs,
                              const float* out, const float* dout, int64_t out_stride,
                              const float* log_sum, const AttentionGradients& gradients,
                              float* scratch, const AttentionPart& part) {
  HWY_DYNAMIC_DISPATCH(QueriesBackward)
  (shape, inputs, out, dout, out_stride, log_sum, gradients, scratch, part);
}

void AttentionBackwardKeys(const AttentionShape& shape, const AttentionInputs& inputs,
                           const float* out, const float* dout, int64_t out_stride,
                           const float* log_sum, const AttentionGradients& gradients,
                           float* scratch, const AttentionPart& part) {
  HWY_DYNAMIC_DISPATCH(KeysBackward)
  (shape, inputs, out, dout, out_stride, log_sum, gradients, scratch, part);
}

}  // namespace longhaul::kernels
#endif  // HWY_ONCE

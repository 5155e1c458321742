// The innermost part of a matrix product, for each instruction set: a tile of C held in registers.
// Panels are as in gemm.h.
#include <algorithm>
#include <cstdint>

#include "hwy/highway.h"
#include "worker/kernels/gemm.h"
#include "worker/kernels/lanes-inl.h"

#if defined(LONGHAUL_WORKER_KERNELS_GEMM_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef LONGHAUL_WORKER_KERNELS_GEMM_INL
#undef LONGHAUL_WORKER_KERNELS_GEMM_INL
#else
#define LONGHAUL_WORKER_KERNELS_GEMM_INL
#endif

HWY_BEFORE_NAMESPACE();
namespace longhaul::kernels::HWY_NAMESPACE {
// A tile: as many rows and columns as fit into the registers. With few registers it is narrow: then
// fewer elements of a panel are loaded for each multiplication.
constexpr int kTileRows = kLanes == 16 ? 8 : HWY_TARGET == HWY_NEON || kLanes == 8 ? 6 : 2;
constexpr int64_t kTileColumns = kLanes == 16 ? 48 : 16;
// The width of a panel is a multiple of this.
constexpr int64_t kStep = 16;

// A panel in memory, of `width` columns and all of the depth. Where tiles are as wide as a panel,
// it is a matrix of rows of `width` elements. Where they are narrow, the columns of each kStep lie
// together, so that what a tile reads is contiguous.
constexpr bool kNarrow = kTileColumns == kStep;
struct Panel {
  const float* data = nullptr;
  int64_t width = 0, depth = 0;
  // Where the multiplication begins along the depth.
  int64_t first = 0;
  // The panels do not fit into a cache of their own, and are read in order: along the depth, then
  // the next one. What is read next is prefetched, since processors do so too late, or within a
  // page only.
  bool streamed = false;
};
// So many floats do not fit.
constexpr int64_t kStreamedFloats = 128 << 10;

// What tiles read of it: rows of `width` elements.
struct PanelRows {
  const float* data = nullptr;
  int64_t width = 0;
  // What is read next, in the same form, if the panels are streamed. Each tile prefetches so many
  // lines of every kStep rows.
  const float* ahead = nullptr;
  bool streamed = false;
  int64_t lines = 0;
};
constexpr int64_t kLineFloats = 16;

// Computes R rows and V vectors of columns of C. Does not write columns from `columns` on.
// Not inlined: where it is, together with much else, sums do not stay in registers.
template <int R, int V>
HWY_NOINLINE void Tile(const FloatMatrix& a, int64_t depth, const PanelRows& right_side,
                       int64_t columns, float* HWY_RESTRICT c, int64_t c_stride, bool add) {
  FloatVector sums[R][V];
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 16
    for (int v = 0; v < V; ++v) sums[r][v] = hn::Zero(kFloat);
  }
  const float* left = a.data;
  const float* HWY_RESTRICT panel = right_side.data;
  const float* ahead = right_side.ahead;
  if (right_side.streamed) {
    for (int r = 0; r < R; ++r) {
      for (int64_t i = 0; i < V * kLanes; i += kLineFloats)
        __builtin_prefetch(c + r * c_stride + i);
    }
  }
  for (int64_t k = 0; k < depth; k += kStep, ahead += kStep * right_side.width) {
    for (int64_t i = 0; i < right_side.lines; ++i)
      __builtin_prefetch(ahead + i * kLineFloats, 0, 2);
    const int64_t count = std::min(kStep, depth - k);
    for (int64_t i = 0; i < count; ++i, left += a.column_stride, panel += right_side.width) {
      FloatVector right[V];
#pragma GCC unroll 16
      for (int v = 0; v < V; ++v) right[v] = hn::LoadU(kFloat, panel + v * kLanes);
#pragma GCC unroll 16
      for (int r = 0; r < R; ++r) {
        const auto x = hn::Set(kFloat, left[r * a.row_stride]);
#pragma GCC unroll 16
        for (int v = 0; v < V; ++v) sums[r][v] = hn::MulAdd(x, right[v], sums[r][v]);
      }
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r) {
    float* const row = c + r * c_stride;
#pragma GCC unroll 16
    for (int v = 0; v < V; ++v) {
      const int64_t left_over = columns - v * kLanes;
      if (left_over >= kLanes) {
        float* const to = row + v * kLanes;
        hn::StoreU(add ? hn::Add(hn::LoadU(kFloat, to), sums[r][v]) : sums[r][v], kFloat, to);
      } else if (left_over > 0) {
        HWY_ALIGN float last[kLanes];
        hn::Store(sums[r][v], kFloat, last);
        for (int64_t i = 0; i < left_over; ++i) {
          float& to = row[v * kLanes + i];
          to = add ? to + last[i] : last[i];
        }
      }
    }
  }
}

// Computes all rows for a panel of V vectors.
template <int V>
HWY_INLINE void Rows(FloatMatrix a, int64_t rows, int64_t depth, PanelRows panel, int64_t columns,
                     float* c, int64_t c_stride, bool add) {
  // All tiles together prefetch all of it.
  const int64_t tiles = (rows + kTileRows - 1) / kTileRows;
  if (tiles > 0 && panel.streamed)
    panel.lines = (panel.width * kStep / kLineFloats + tiles - 1) / tiles;
  const auto advance = [&](int count) {
    a.data += count * a.row_stride;
    c += count * c_stride;
    rows -= count;
    panel.ahead += panel.lines * kLineFloats;
  };
  for (; rows >= kTileRows; advance(kTileRows))
    Tile<kTileRows, V>(a, depth, panel, columns, c, c_stride, add);
  if constexpr (kTileRows > 4) {
    if (rows >= 4) {
      Tile<4, V>(a, depth, panel, columns, c, c_stride, add);
      advance(4);
    }
  }
  if constexpr (kTileRows > 2) {
    if (rows >= 2) {
      Tile<2, V>(a, depth, panel, columns, c, c_stride, add);
      advance(2);
    }
  }
  if (rows >= 1) Tile<1, V>(a, depth, panel, columns, c, c_stride, add);
}

// Computes `columns` of C, at most kPanelColumns, from one panel.
HWY_INLINE void MultiplyPanel(const FloatMatrix& a, int64_t rows, int64_t depth, const Panel& panel,
                              int64_t columns, float* c, int64_t c_stride, bool add) {
  constexpr int kVectors = kStep / kLanes;
  if constexpr (kNarrow) {
    const auto part = [&](int64_t j, int64_t first) {
      return panel.data + j * panel.depth + first * kStep;
    };
    const int64_t end = panel.first + depth;
    for (int64_t j = 0; j < columns; j += kStep) {
      const float* const ahead = j + kStep < columns ? part(j + kStep, panel.first)
                                 : end < panel.depth ? part(0, end)
                                                     : part(panel.width, 0);
      Rows<kVectors>(a, rows, depth, {part(j, panel.first), kStep, ahead, panel.streamed},
                     columns - j, c + j, c_stride, add);
    }
    return;
  }
  const float* const data = panel.data + panel.first * panel.width;
  const PanelRows right{data, panel.width, data + depth * panel.width, panel.streamed};
  if (columns > 2 * kStep) {
    Rows<3 * kVectors>(a, rows, depth, right, columns, c, c_stride, add);
  } else if (columns > kStep) {
    Rows<2 * kVectors>(a, rows, depth, right, columns, c, c_stride, add);
  } else {
    Rows<kVectors>(a, rows, depth, right, columns, c, c_stride, add);
  }
}

// The width of a panel of so many columns.
HWY_INLINE int64_t WidthOf(int64_t columns) {
  return columns >= kPanelColumns ? kPanelColumns : (columns + kStep - 1) / kStep * kStep;
}

// Packs 16 columns of B, each contiguous in memory, by transposing 4 x 4 elements at a time.
HWY_INLINE void PackTransposed(const FloatMatrix& b, int64_t depth, int64_t width, float* to) {
  const hn::CappedTag<float, 4> four;
  const hn::Repartition<double, decltype(four)> two;
  const auto pair = [&](auto lower, auto upper, bool high) HWY_ATTR {
    const auto x = hn::BitCast(two, lower), y = hn::BitCast(two, upper);
    return hn::BitCast(four,
                       high ? hn::InterleaveUpper(two, x, y) : hn::InterleaveLower(two, x, y));
  };
  for (int64_t j = 0; j < kStep; j += 4) {
    const float* const from = b.data + j * b.column_stride;
    int64_t k = 0;
    for (; k + 4 <= depth; k += 4) {
      const auto r0 = hn::LoadU(four, from + k), r1 = hn::LoadU(four, from + b.column_stride + k),
                 r2 = hn::LoadU(four, from + 2 * b.column_stride + k),
                 r3 = hn::LoadU(four, from + 3 * b.column_stride + k);
      const auto low01 = hn::InterleaveLower(four, r0, r1),
                 low23 = hn::InterleaveLower(four, r2, r3),
                 high01 = hn::InterleaveUpper(four, r0, r1),
                 high23 = hn::InterleaveUpper(four, r2, r3);
      float* const out = to + k * width + j;
      hn::StoreU(pair(low01, low23, false), four, out);
      hn::StoreU(pair(low01, low23, true), four, out + width);
      hn::StoreU(pair(high01, high23, false), four, out + 2 * width);
      hn::StoreU(pair(high01, high23, true), four, out + 3 * width);
    }
    for (; k < depth; ++k) {
      for (int64_t i = 0; i < 4; ++i) to[k * width + j + i] = from[i * b.column_stride + k];
    }
  }
}

// Packs a panel of `width` columns. B has `columns` of them; the others become zeros. kWide: rows
// of `width` elements whatever the tiles are.
template <bool kWide = !kNarrow>
HWY_INLINE void PackPanel(const FloatMatrix& b, int64_t depth, int64_t columns, int64_t width,
                          float* panel) {
  const int64_t row = kWide ? width : kStep;
  for (int64_t j = 0; j < width; j += kStep) {
    const int64_t present = columns - j;
    const FloatMatrix part{b.data + j * b.column_stride, b.row_stride, b.column_stride};
    float* const to = kWide ? panel + j : panel + j * depth;
    if (present >= kStep && b.column_stride == 1) {
      for (int64_t k = 0; k < depth; ++k) {
        for (int64_t i = 0; i < kStep; i += kLanes) {
          hn::StoreU(hn::LoadU(kFloat, part.data + k * b.row_stride + i), kFloat, to + k * row + i);
        }
      }
    } else if (present >= kStep && b.row_stride == 1) {
      PackTransposed(part, depth, row, to);
    } else {
      for (int64_t k = 0; k < depth; ++k) {
        for (int64_t i = 0; i < kStep; ++i) {
          to[k * row + i] = i < present ? part.data[k * b.row_stride + i * b.column_stride] : 0.0f;
        }
      }
    }
  }
}

}  // namespace longhaul::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

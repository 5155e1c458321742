#include "worker/kernels/gemm.h"

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "worker/kernels/gemm.cc"
// clang-format off: before all other includes that use Highway.
#include "hwy/foreach_target.h"
// clang-format on

#include "worker/kernels/gemm-inl.h"

HWY_BEFORE_NAMESPACE();
namespace longhaul::kernels::HWY_NAMESPACE {

// The depth is cut into parts of this size, so that what tiles read of a part stays in the caches.
constexpr int64_t kDepthBlock = 512;
// So many rows of a transposed left side are copied at a time. With this stride the rows of a tile
// do not fall into the same lines of a cache.
constexpr int64_t kLeftRows = 64, kLeftStride = kDepthBlock + 16;

// left[r * kLeftStride + k] = a(r, k), of a transposed matrix.
HWY_INLINE void CopyLeft(const FloatMatrix& a, int64_t rows, int64_t depth, float* left) {
  int64_t k = 0;
  for (; k + kStep <= depth; k += kStep) {
    PackTransposed({a.data + k * a.column_stride, 1, a.column_stride}, rows, kLeftStride, left + k);
  }
  for (; k < depth; ++k) {
    for (int64_t r = 0; r < rows; ++r) left[r * kLeftStride + k] = a.data[k * a.column_stride + r];
  }
}

// Rows of C from a part of the depth, k to k + depth, of all of which A has `depth`.
HWY_INLINE void MultiplyPart(const FloatMatrix& a, int64_t rows, int64_t k, int64_t depth,
                             const float* panel, int64_t columns, const Product& p, float* c) {
  const bool streamed = p.depth * p.columns >= kStreamedFloats;
  MultiplyPanel(a, rows, depth, {panel, WidthOf(columns), p.depth, k, streamed}, columns, c,
                p.c_stride, p.add || k > 0);
}

// Neighbours along the depth of a transposed matrix lie far apart, often by a multiple of a page:
// then they fall into the same lines of a cache, and each panel would load them anew. So a part of
// them is copied, and all panels are multiplied by it.
void MultiplyTransposed(const FloatMatrix& a, const float* panels, const Product& p, float* c) {
  HWY_ALIGN float left[kLeftRows * kLeftStride];
  for (int64_t row = 0; row < p.rows; row += kLeftRows) {
    const int64_t rows = std::min(kLeftRows, p.rows - row);
    for (int64_t k = 0; k < p.depth; k += kDepthBlock) {
      const int64_t depth = std::min(kDepthBlock, p.depth - k);
      CopyLeft({a.data + row + k * a.column_stride, 1, a.column_stride}, rows, depth, left);
      for (int64_t column = 0; column < p.columns; column += kPanelColumns) {
        MultiplyPart({left, kLeftStride, 1}, rows, k, depth, panels + column * p.depth,
                     std::min(kPanelColumns, p.columns - column), p, c + row * p.c_stride + column);
      }
    }
  }
}

void MultiplyPanels(const FloatMatrix& a, const float* panels, const Product& p, float* c) {
  if (a.column_stride != 1 && p.depth > 0) return MultiplyTransposed(a, panels, p, c);
  for (int64_t column = 0; column < p.columns; column += kPanelColumns) {
    const int64_t columns = std::min(kPanelColumns, p.columns - column);
    int64_t k = 0;
    // Runs at least once: with depth 0 the product is zero.
    do {
      const FloatMatrix part{a.data + k * a.column_stride, a.row_stride, a.column_stride};
      MultiplyPart(part, p.rows, k, std::min(kDepthBlock, p.depth - k), panels + column * p.depth,
                   columns, p, c + column);
      k += kDepthBlock;
    } while (k < p.depth);
  }
}

void PackOnePanel(const FloatMatrix& b, int64_t depth, int64_t columns, float* panel) {
  PackPanel(b, depth, columns, WidthOf(columns), panel);
}

}  // namespace longhaul::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace longhaul::kernels {

HWY_EXPORT(MultiplyPanels);
HWY_EXPORT(PackOnePanel);

int64_t PanelElements(int64_t depth, int64_t columns) { return depth * ((columns + 15) / 16 * 16); }

void PackPanels(const FloatMatrix& b, int64_t depth, int64_t columns, int64_t first, int64_t end,
                float* panels) {
  for (int64_t panel = first; panel < end; ++panel) {
    const int64_t column = panel * kPanelColumns;
    const FloatMatrix part{b.data + column * b.column_stride, b.row_stride, b.column_stride};
    HWY_DYNAMIC_DISPATCH(PackOnePanel)
    (part, depth, std::min(kPanelColumns, columns - column), panels + column * depth);
  }
}

void Multiply(const FloatMatrix& a, const float* panels, const Product& product, float* c) {
  HWY_DYNAMIC_DISPATCH(MultiplyPanels)(a, panels, product, c);
}

}  // namespace longhaul::kernels
#endif  // HWY_ONCE

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

// The depth is cut into parts of this size, so that the part of a panel stays in the second-level
// cache.
constexpr int64_t kDepthBlock = 512;

void MultiplyPanels(const FloatMatrix& a, const float* panels, const Product& p, float* c) {
  for (int64_t column = 0; column < p.columns; column += kPanelColumns) {
    const int64_t columns = std::min(kPanelColumns, p.columns - column);
    const float* panel = panels + column * p.depth;
    int64_t k = 0;
    // Runs at least once: with depth 0 the product is zero.
    do {
      const FloatMatrix part{a.data + k * a.column_stride, a.row_stride, a.column_stride};
      MultiplyPanel(part, p.rows, std::min(kDepthBlock, p.depth - k),
                    {panel + k * WidthOf(columns), WidthOf(columns)}, columns, c + column,
                    p.c_stride, p.add || k > 0);
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

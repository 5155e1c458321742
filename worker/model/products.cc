#include "worker/model/products.h"

#include <algorithm>

#include "worker/kernels/gemm.h"
#include "worker/kernels/gemm_bf16.h"
#include "worker/model/parallel.h"

namespace longhaul {
namespace {

// So many rows of dy are converted to pairs at a time.
constexpr int64_t kLeftRows = 64;

int64_t PanelCount(const RightSide& right) {
  return (right.columns() + kernels::kPanelColumns - 1) / kernels::kPanelColumns;
}

int64_t LeftCount(const GradientLeft& left) { return (left.rows + kLeftRows - 1) / kLeftRows; }

template <typename T>
kernels::MatrixRef<T> RefOf(const RightSide& right) {
  const kernels::MatrixRef<T> ref{static_cast<const T*>(right.matrix.data), right.matrix.columns,
                                  1};
  return right.from == RightSide::From::kWeightTransposed ? ref.Transposed() : ref;
}

void PackOne(const RightSide& right, int64_t panel, bool bfloat16) {
  const int64_t depth = right.depth(), columns = right.columns();
  if (!bfloat16) {
    kernels::PackPanels(RefOf<float>(right), depth, columns, panel, panel + 1, right.panels);
  } else if (right.from == RightSide::From::kInput) {
    kernels::PackPanelsBf16(RefOf<float>(right), depth, columns, panel, panel + 1,
                            reinterpret_cast<uint32_t*>(right.panels));
  } else {
    kernels::PackPanelsBf16(RefOf<uint16_t>(right), depth, columns, panel, panel + 1,
                            reinterpret_cast<uint32_t*>(right.panels));
  }
}

void PairOne(const GradientLeft& left, int64_t part) {
  const int64_t first = part * kLeftRows;
  kernels::PairRows(left.dy + first * left.columns, std::min(kLeftRows, left.rows - first),
                    left.columns,
                    reinterpret_cast<uint32_t*>(left.pairs) + first / 2 * left.columns);
}

}  // namespace

int64_t Products::PanelFloats(int64_t depth, int64_t columns) const {
  return kernels::PanelElements(bfloat16_ ? (depth + 1) / 2 : depth, columns);
}

int64_t Products::PairFloats(int64_t rows, int64_t columns) const {
  return bfloat16_ ? (rows + 1) / 2 * columns : 0;
}

int64_t Products::ConvertedFloats(int64_t rows, int64_t depth) const {
  return bfloat16_ ? rows * ((depth + 1) / 2) : 0;
}

void Products::Prepare(absl::Span<const RightSide> rights,
                       absl::Span<const GradientLeft> lefts) const {
  int64_t count = 0;
  for (const RightSide& right : rights) count += PanelCount(right);
  if (bfloat16_) {
    for (const GradientLeft& left : lefts) count += LeftCount(left);
  }
  ForTasks(count, [&](int64_t task, int) {
    for (const RightSide& right : rights) {
      if (task < PanelCount(right)) return PackOne(right, task, bfloat16_);
      task -= PanelCount(right);
    }
    for (const GradientLeft& left : lefts) {
      if (task < LeftCount(left)) return PairOne(left, task);
      task -= LeftCount(left);
    }
  });
}

void Products::Multiply(const float* a, const float* panels, const Shape& shape, float* c,
                        float* converted) const {
  const kernels::Product product{shape.rows, shape.depth, shape.columns, shape.columns, shape.add};
  if (!bfloat16_) return kernels::Multiply({a, shape.depth, 1}, panels, product, c);
  auto* const pairs = reinterpret_cast<uint32_t*>(converted);
  kernels::RowsToPairs(a, shape.rows, shape.depth, pairs);
  kernels::MultiplyBf16({pairs, (shape.depth + 1) / 2, 1},
                        reinterpret_cast<const uint32_t*>(panels), product, c);
}

void Products::MultiplyGradient(const GradientLeft& left, int64_t first, int64_t count,
                                const RightSide& right, bool add, float* dw) const {
  const int64_t columns = right.columns();
  const kernels::Product product{count, left.rows, columns, columns, add};
  float* const c = dw + first * columns;
  if (bfloat16_) {
    kernels::MultiplyBf16({reinterpret_cast<const uint32_t*>(left.pairs) + first, 1, left.columns},
                          reinterpret_cast<const uint32_t*>(right.panels), product, c);
  } else {
    kernels::Multiply({left.dy + first, 1, left.columns}, right.panels, product, c);
  }
}

}  // namespace longhaul

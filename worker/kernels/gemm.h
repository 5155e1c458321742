// Matrix products for the blocks' forward and backward: C = A B with A [rows, depth] and B [depth,
// columns], row-major or transposed float32 matrices of any size. An element of C is summed over
// the depth in one fixed order, whatever rows and columns a call computes. So the bits depend
// neither on the number of threads nor on how they share the work. They do depend on the
// instruction set (fused multiply-add where the CPU has it). Tests hold C to within 1e-6 (2 +
// sqrt(depth)) max(1, |c|) of a double-precision reference, for inputs in [-1, 1).
//
// B is first packed into panels, which several threads may then read. Pure functions on the
// caller's thread and memory; thread-safe.
#pragma once

#include <cstdint>

namespace longhaul::kernels {

// A matrix in memory: element (i, j) is data[i * row_stride + j * column_stride]; one of the
// strides is 1.
template <typename T>
struct MatrixRef {
  const T* data = nullptr;
  int64_t row_stride = 0, column_stride = 1;

  MatrixRef Transposed() const { return {data, column_stride, row_stride}; }
};
using FloatMatrix = MatrixRef<float>;

// The width of a panel, in columns of B. The last panel may be narrower, a multiple of 16.
inline constexpr int64_t kPanelColumns = 48;

// The memory for all panels of B, in elements.
int64_t PanelElements(int64_t depth, int64_t columns);

// Packs panels [first, end) of B [depth, columns], which has ceil(columns / kPanelColumns) panels.
void PackPanels(const FloatMatrix& b, int64_t depth, int64_t columns, int64_t first, int64_t end,
                float* panels);

struct Product {
  int64_t rows = 0, depth = 0, columns = 0;
  // The distance between two rows of C, in elements.
  int64_t c_stride = 0;
  // C += A B instead of C = A B.
  bool add = false;
};
// `a`: [rows, depth]. `panels`: all panels of B. C may not overlap them.
void Multiply(const FloatMatrix& a, const float* panels, const Product& product, float* c);

}  // namespace longhaul::kernels

// Matrix products for the blocks' forward and backward: C = A B, of row-major or transposed float32
// matrices of any size, on the caller's thread. An element of C is summed over the depth in one
// fixed order, whatever rows or columns a call computes: so the bits depend neither on how threads
// share the work nor on how many there are. They do depend on the instruction set (fused multiply
// and add where the CPU has it).
//
// B is first rearranged into panels, which several threads may then read.
#pragma once

#include <cstdint>

namespace longhaul::kernels {

// A matrix in memory: element (i, j) is data[i * row_stride + j * column_stride]; one of the strides
// is 1.
template <typename T>
struct MatrixRef {
  const T* data = nullptr;
  int64_t row_stride = 0, column_stride = 1;

  MatrixRef Transposed() const { return {data, column_stride, row_stride}; }
};
using FloatMatrix = MatrixRef<float>;

// Columns of B side by side in a panel; the last panel may be narrower, by multiples of 16.
inline constexpr int64_t kPanelColumns = 48;

// Elements of memory for B in panels.
int64_t PanelElements(int64_t depth, int64_t columns);

// Panels [first, end) of B [depth, columns]; there are ceil(columns / kPanelColumns).
void PackPanels(const FloatMatrix& b, int64_t depth, int64_t columns, int64_t first, int64_t end,
                float* panels);

struct Product {
  int64_t rows = 0, depth = 0, columns = 0;
  int64_t c_stride = 0;  // Elements between two rows of C.
  bool add = false;      // To what C has.
};
void Multiply(const FloatMatrix& a, const float* panels, const Product& product, float* c);

}  // namespace longhaul::kernels

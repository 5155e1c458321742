// The matrix products of a fused pass: y = x W^T, dx = dy W, dW = dy^T x, with activations and
// gradients in float32 and weights in the precision that the model computes in. In bf16 both sides of
// a product are rounded to it, and sums are float32.
//
// Thread-safe: nothing is kept but the precision. All memory is the caller's.
#pragma once

#include <cstdint>

#include "absl/types/span.h"

namespace longhaul {

// [rows, columns] in memory, row-major, in the precision of the products.
struct WeightMatrix {
  const void* data = nullptr;
  int64_t rows = 0, columns = 0;
};

// The right side of a product on its way into panels (worker/kernels/gemm.h).
struct RightSide {
  enum class From {
    kWeightTransposed,  // W^T, for y.
    kWeight,            // W, for dx.
    kInput              // x [weight.rows, weight.columns] in float32, for dW.
  };
  From from = From::kWeight;
  WeightMatrix matrix;
  float* panels = nullptr;

  int64_t depth() const { return from == From::kWeightTransposed ? matrix.columns : matrix.rows; }
  int64_t columns() const { return from == From::kWeightTransposed ? matrix.rows : matrix.columns; }
};

// The left side of dW = dy^T x. In bf16, `pairs` gets dy in another order.
struct GradientLeft {
  const float* dy = nullptr;  // [rows, columns]
  int64_t rows = 0, columns = 0;
  float* pairs = nullptr;
};

class Products {
 public:
  explicit Products(bool bfloat16) : bfloat16_(bfloat16) {}
  bool bfloat16() const { return bfloat16_; }

  // Floats of memory for a right side, for a GradientLeft's pairs, for `converted` below.
  int64_t PanelFloats(int64_t depth, int64_t columns) const;
  int64_t PairFloats(int64_t rows, int64_t columns) const;
  int64_t ConvertedFloats(int64_t rows, int64_t depth) const;

  // Makes all panels; and the left sides, on all threads.
  void Prepare(absl::Span<const RightSide> rights, absl::Span<const GradientLeft> lefts = {}) const;

  struct Shape {
    int64_t rows = 0, depth = 0, columns = 0;
    bool add = false;  // To what c has.
  };
  // c [rows, columns] of a [rows, depth], on this thread.
  void Multiply(const float* a, const float* panels, const Shape& shape, float* c,
                float* converted) const;
  // Rows [first, first + count) of dW [left.columns, columns], on this thread.
  void MultiplyGradient(const GradientLeft& left, int64_t first, int64_t count,
                        const RightSide& right, bool add, float* dw) const;

 private:
  const bool bfloat16_;
};

}  // namespace longhaul

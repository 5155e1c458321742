// The matrix products of a fused pass: y = x W^T, dx = dy W, dW = dy^T x. Activations and gradients
// are float32; weights have the type that the model computes in. With bf16, both factors of a
// product are rounded to bf16, and sums are float32.
//
// Immutable, so thread-safe. The caller owns all memory.
#pragma once

#include <cstdint>

#include "absl/types/span.h"

namespace longhaul {

// A row-major matrix [rows, columns], float32 or bf16 as Products says.
struct WeightMatrix {
  const void* data = nullptr;
  int64_t rows = 0, columns = 0;
};

// The right side of a product, which is to be packed into panels (worker/kernels/gemm.h).
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

// The left side of dW = dy^T x. With bf16, `pairs` receives dy as pairs
// (worker/kernels/gemm_bf16.h).
struct GradientLeft {
  const float* dy = nullptr;  // [rows, columns]
  int64_t rows = 0, columns = 0;
  float* pairs = nullptr;
};

class Products {
 public:
  explicit Products(bool bfloat16) : bfloat16_(bfloat16) {}
  bool bfloat16() const { return bfloat16_; }

  // The memory, in floats, for the panels of a right side, for GradientLeft::pairs, and for
  // `converted` of Multiply.
  int64_t PanelFloats(int64_t depth, int64_t columns) const;
  int64_t PairFloats(int64_t rows, int64_t columns) const;
  int64_t ConvertedFloats(int64_t rows, int64_t depth) const;

  // Packs all panels and left sides, on all threads. Blocks.
  void Prepare(absl::Span<const RightSide> rights, absl::Span<const GradientLeft> lefts = {}) const;

  struct Shape {
    int64_t rows = 0, depth = 0, columns = 0;
    // Add to c. False: overwrite it.
    bool add = false;
  };
  // Computes c [rows, columns] from a [rows, depth], on this thread.
  void Multiply(const float* a, const float* panels, const Shape& shape, float* c,
                float* converted) const;
  // Computes rows [first, first + count) of dW [left.columns, columns], on this thread.
  void MultiplyGradient(const GradientLeft& left, int64_t first, int64_t count,
                        const RightSide& right, bool add, float* dw) const;

 private:
  const bool bfloat16_;
};

}  // namespace longhaul

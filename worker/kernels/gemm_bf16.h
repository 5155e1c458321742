// Matrix products as in gemm.h of matrices in bf16, summed in float32. Two neighbours along the depth
// lie together in 32 bits, the first in the lower half; where the depth is odd the last has a zero
// beside it. Values are rounded to the nearest, ties to even.
//
// Where the CPU multiplies bf16 (AVX512-BF16) its instruction is used; elsewhere a pair costs two
// float32 operations, so that it is slower than gemm.h.
#pragma once

#include <cstdint>

#include "worker/kernels/gemm.h"

namespace longhaul::kernels {

bool HasFastBf16();

// As PackPanels, of float32 values or of the bits of bf16 values; memory for panels is
// PanelElements((depth + 1) / 2, columns).
void PackPanelsBf16(const MatrixRef<float>& b, int64_t depth, int64_t columns, int64_t first,
                    int64_t end, uint32_t* panels);
void PackPanelsBf16(const MatrixRef<uint16_t>& b, int64_t depth, int64_t columns, int64_t first,
                    int64_t end, uint32_t* panels);

// A left side whose rows are those of x [rows, depth]: pairs[rows, (depth + 1) / 2].
void RowsToPairs(const float* x, int64_t rows, int64_t depth, uint32_t* pairs);
// One whose rows are the columns of x [depth, columns]: pairs[(depth + 1) / 2, columns].
void PairRows(const float* x, int64_t depth, int64_t columns, uint32_t* pairs);

// `a`: pairs, with strides in pairs. product.depth: elements.
void MultiplyBf16(const MatrixRef<uint32_t>& a, const uint32_t* panels, const Product& product,
                  float* c);
// The same without the instruction.
void MultiplyBf16Portable(const MatrixRef<uint32_t>& a, const uint32_t* panels,
                          const Product& product, float* c);

}  // namespace longhaul::kernels

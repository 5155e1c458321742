// Matrix products as in gemm.h, with bf16 factors and float32 sums. Two neighbours along the depth
// form a pair of 32 bits, the first in the lower half. If the depth is odd, the last one is paired
// with zero. float32 values are rounded to nearest even.
//
// On CPUs with AVX512-BF16 its instruction is used. Elsewhere a pair takes two float32 operations,
// which is slower than gemm.h. The two may differ in bits. Pure functions on the caller's thread
// and memory; thread-safe.
#pragma once

#include <cstdint>

#include "worker/kernels/gemm.h"

namespace longhaul::kernels {

// Whether this CPU has AVX512-BF16.
bool HasFastBf16();

// As PackPanels, for float32 values or the bits of bf16 values. `panels` has
// PanelElements((depth + 1) / 2, columns) pairs.
void PackPanelsBf16(const MatrixRef<float>& b, int64_t depth, int64_t columns, int64_t first,
                    int64_t end, uint32_t* panels);
void PackPanelsBf16(const MatrixRef<uint16_t>& b, int64_t depth, int64_t columns, int64_t first,
                    int64_t end, uint32_t* panels);

// Makes a left side A = x [rows, depth]: pairs is [rows, (depth + 1) / 2].
void RowsToPairs(const float* x, int64_t rows, int64_t depth, uint32_t* pairs);
// Makes a left side A = x^T of x [depth, columns]: pairs is [(depth + 1) / 2, columns].
void PairRows(const float* x, int64_t depth, int64_t columns, uint32_t* pairs);

// As Multiply. The strides of `a` count pairs; product.depth counts elements.
void MultiplyBf16(const MatrixRef<uint32_t>& a, const uint32_t* panels, const Product& product,
                  float* c);
// MultiplyBf16 without the instruction, for tests.
void MultiplyBf16Portable(const MatrixRef<uint32_t>& a, const uint32_t* panels,
                          const Product& product, float* c);

}  // namespace longhaul::kernels

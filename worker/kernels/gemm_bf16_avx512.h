// The product of gemm_bf16.h with AVX512-BF16. Call MultiplyBf16Avx512 only if HasAvx512Bf16().
#pragma once

#include <cstdint>

#include "worker/kernels/gemm.h"

namespace longhaul::kernels {

bool HasAvx512Bf16();
void MultiplyBf16Avx512(const MatrixRef<uint32_t>& a, const uint32_t* panels,
                        const Product& product, float* c);

}  // namespace longhaul::kernels

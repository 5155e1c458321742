// The kernels of the table, by where they are used.
#pragma once

#include "tests/benchmark/kernels/kernel_table.h"

namespace longhaul::benchmark {

// Matrix products of blocks, packing included, in fp32 and in bf16, and libtorch's beside them;
// attention; Muon's iteration. `widest`: of the model.
void AddProductKernels(KernelTable& table, int64_t widest);
// Norms, rotation, SwiGLU, the loss, and AdamW.
void AddLayerKernels(KernelTable& table);
// Codecs, 1-bit signs, the outer step, a gather of rows, digests.
void AddExchangeKernels(KernelTable& table);

}  // namespace longhaul::benchmark

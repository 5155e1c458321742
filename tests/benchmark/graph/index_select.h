// PyTorch's gather of rows, on one thread.
#pragma once

#include <cstdint>

namespace longhaul::benchmark {

// Row i of `out` becomes row ids[i] of `table`.
void IndexSelect(const float* table, int64_t rows, int64_t columns, const int64_t* ids,
                 int64_t count, float* out);

}  // namespace longhaul::benchmark

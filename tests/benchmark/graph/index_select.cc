#include "tests/benchmark/graph/index_select.h"

#include "ATen/Parallel.h"
#include "ATen/core/grad_mode.h"
#include "ATen/ops/from_blob.h"
#include "ATen/ops/index_select.h"

namespace longhaul::benchmark {

void IndexSelect(const float* table, int64_t rows, int64_t columns, const int64_t* ids,
                 int64_t count, float* out) {
  at::set_num_threads(1);
  const at::NoGradGuard no_gradients;
  const at::Tensor from = at::from_blob(const_cast<float*>(table), {rows, columns}, at::kFloat);
  const at::Tensor index = at::from_blob(const_cast<int64_t*>(ids), {count}, at::kLong);
  at::Tensor to = at::from_blob(out, {count, columns}, at::kFloat);
  at::index_select_out(to, from, 0, index);
}

}  // namespace longhaul::benchmark

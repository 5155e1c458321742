#include "worker/engine/product_times.h"

#include <time.h>

#include <algorithm>
#include <functional>
#include <limits>

#include "ATen/Parallel.h"
#include "ATen/core/grad_mode.h"
#include "ATen/ops/empty.h"
#include "ATen/ops/mm.h"
#include "ATen/ops/ones.h"
#include "absl/types/span.h"
#include "worker/model/activation_memory.h"
#include "worker/model/products.h"

namespace longhaul {
namespace {

constexpr int64_t kSideMin = 256, kSideMax = 1024, kRows = 512;
// The first run makes what libtorch keeps for the others.
constexpr int kRuns = 5;

// Of this thread: what other programs do on its core does not count.
int64_t ThreadNanoseconds(const std::function<void()>& work) {
  const auto now = [] {
    timespec time{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return time.tv_sec * int64_t{1'000'000'000} + time.tv_nsec;
  };
  const int64_t begin = now();
  work();
  return now() - begin;
}

const TensorLayout* LargestMatrix(const ModelLayout& layout) {
  const TensorLayout* largest = nullptr;
  for (const UnitLayout& unit : layout.units) {
    if (unit.kind != UnitKind::kBlock) continue;
    for (const TensorLayout& tensor : unit.tensors) {
      if (tensor.shape.size() == 2 && (largest == nullptr || tensor.elements > largest->elements))
        largest = &tensor;
    }
  }
  return largest;
}

struct OneThread {
  const int before = at::get_num_threads();
  OneThread() { at::set_num_threads(1); }
  ~OneThread() { at::set_num_threads(before); }
};

}  // namespace

ProductTimes MeasureProducts(const ModelLayout& layout, at::ScalarType compute) {
  const TensorLayout* const matrix = LargestMatrix(layout);
  if (matrix == nullptr || std::min(matrix->shape[0], matrix->shape[1]) < kSideMin) return {};
  const int64_t out = std::min(matrix->shape[0], kSideMax);
  const int64_t in = std::min(matrix->shape[1], kSideMax);
  const OneThread one_thread;
  const at::NoGradGuard no_grad;
  const Products products(/*bfloat16=*/compute == at::kBFloat16);
  const at::Tensor x = at::ones({kRows, in}, at::kFloat), weight = at::ones({out, in}, compute);
  const at::Tensor narrow = x.to(compute);
  at::Tensor y = at::empty({kRows, out}, compute);
  ActivationMemory memory;
  float *panels = nullptr, *converted = nullptr, *c = nullptr;
  memory.CutAnew([&](ActivationMemory::Cutter& cutter) {
    panels = cutter.Floats(products.PanelFloats(in, out));
    converted = cutter.Floats(products.ConvertedFloats(kRows, in));
    c = cutter.Floats(kRows * out);
  });
  ProductTimes times{.ours_ns = std::numeric_limits<int64_t>::max(),
                     .torch_ns = std::numeric_limits<int64_t>::max()};
  for (int run = 0; run < kRuns; ++run) {
    times.ours_ns = std::min(
        times.ours_ns, ThreadNanoseconds([&] {
          products.Prepare(
              {{RightSide::From::kWeightTransposed, {weight.const_data_ptr(), out, in}, panels}});
          products.Multiply(x.const_data_ptr<float>(), panels, {kRows, in, out}, c, converted);
        }));
    times.torch_ns =
        std::min(times.torch_ns, ThreadNanoseconds([&] { at::mm_out(y, narrow, weight.t()); }));
  }
  return times;
}

}  // namespace longhaul

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tests/benchmark/optimizer/stream.cc"
// clang-format off: before all other includes.
#include "hwy/foreach_target.h"
// clang-format on

#include "hwy/highway.h"
#include "tests/benchmark/optimizer/stream.h"

HWY_BEFORE_NAMESPACE();
namespace longhaul::benchmark::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

void RunStream(int64_t n, const float* gradients, float* parameters, float* moment,
               float* variance) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t i = 0; i + lanes <= n; i += lanes) {
    const auto g = hn::LoadU(d, gradients + i);
    for (float* array : {parameters, moment, variance})
      hn::StoreU(hn::Add(hn::LoadU(d, array + i), g), d, array + i);
  }
}

}  // namespace
}  // namespace longhaul::benchmark::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace longhaul::benchmark {

HWY_EXPORT(RunStream);

void Stream(int64_t n, const float* gradients, float* parameters, float* moment, float* variance) {
  HWY_DYNAMIC_DISPATCH(RunStream)(n, gradients, parameters, moment, variance);
}

}  // namespace longhaul::benchmark
#endif  // HWY_ONCE

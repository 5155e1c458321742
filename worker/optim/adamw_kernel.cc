// No fused multiply-add: every instruction set gives the same bits, so the ranks of a pool of
// unlike machines stay equal.
#include "worker/optim/adamw_kernel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "worker/optim/adamw_kernel.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace longhaul {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

template <class D>
HWY_INLINE void UpdateLanes(D d, const AdamWConstants& c, const float* gradients, float* parameters,
                            float* moment, float* variance) {
  const auto g = hn::Mul(hn::LoadU(d, gradients), hn::Set(d, c.gradient_scale));
  const auto m = hn::Add(hn::Mul(hn::Set(d, c.beta1), hn::LoadU(d, moment)),
                         hn::Mul(hn::Set(d, c.one_minus_beta1), g));
  const auto v = hn::Add(hn::Mul(hn::Set(d, c.beta2), hn::LoadU(d, variance)),
                         hn::Mul(hn::Set(d, c.one_minus_beta2), hn::Mul(g, g)));
  const auto denominator =
      hn::Add(hn::Mul(hn::Sqrt(v), hn::Set(d, c.inverse_root)), hn::Set(d, c.eps));
  const auto kept = hn::Mul(hn::Set(d, c.keep), hn::LoadU(d, parameters));
  const auto change = hn::Mul(hn::Set(d, c.step_size), hn::Div(m, denominator));
  hn::StoreU(hn::Sub(kept, change), d, parameters);
  hn::StoreU(m, d, moment);
  hn::StoreU(v, d, variance);
}

void Run(const AdamWConstants& c, int64_t n, const float* gradients, float* parameters,
         float* moment, float* variance) {
  const hn::ScalableTag<float> full;
  const hn::CappedTag<float, 1> single;
  const auto lanes = static_cast<int64_t>(hn::Lanes(full));
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    UpdateLanes(full, c, gradients + i, parameters + i, moment + i, variance + i);
  }
  for (; i < n; ++i)
    UpdateLanes(single, c, gradients + i, parameters + i, moment + i, variance + i);
}

}  // namespace HWY_NAMESPACE
}  // namespace longhaul
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace longhaul {

HWY_EXPORT(Run);

void AdamWKernel(const AdamWConstants& constants, int64_t n, const float* gradients,
                 float* parameters, float* moment, float* variance) {
  HWY_DYNAMIC_DISPATCH(Run)(constants, n, gradients, parameters, moment, variance);
}

}  // namespace longhaul
#endif  // HWY_ONCE

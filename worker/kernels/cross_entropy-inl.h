// layer_kernels.cc includes it once for each instruction set.
#include <algorithm>
#include <cmath>

#include "worker/kernels/cross_entropy.h"
#include "worker/kernels/exp-inl.h"
#include "worker/kernels/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace longhaul::kernels::HWY_NAMESPACE {

HWY_INLINE float Largest(const float* row, int64_t n) {
  FloatVector most = hn::Set(kFloat, row[0]);
  float rest = row[0];
  ForLanes(n, [&](auto d, int64_t i) HWY_ATTR {
    const auto v = hn::LoadU(d, row + i);
    if constexpr (hn::MaxLanes(d) == kLanes) {
      most = hn::Max(most, v);
    } else {
      const float here = hn::GetLane(hn::MaxOfLanes(d, v));
      rest = here > rest ? here : rest;
    }
  });
  const float all = hn::GetLane(hn::MaxOfLanes(kFloat, most));
  return all > rest ? all : rest;
}

double LossOfRows(float* logits, const int64_t* targets, int64_t rows, int64_t classes,
                  double scale) {
  double loss = 0;
  for (int64_t row = 0; row < rows; ++row, logits += classes) {
    if (targets[row] == kNoTarget) {
      std::fill_n(logits, classes, 0.0f);
      continue;
    }
    const float most = Largest(logits, classes);
    const float at_target = logits[targets[row]];
    const float sum = SumOf(classes, [&](auto d, int64_t i) HWY_ATTR {
      const auto e = Exp(d, hn::Sub(hn::LoadU(d, logits + i), hn::Set(d, most)));
      hn::StoreU(e, d, logits + i);
      return e;
    });
    loss += std::log(static_cast<double>(sum)) + most - at_target;
    const float factor = static_cast<float>(scale / sum);
    ForLanes(classes, [&](auto d, int64_t i) HWY_ATTR {
      hn::StoreU(hn::Mul(hn::LoadU(d, logits + i), hn::Set(d, factor)), d, logits + i);
    });
    logits[targets[row]] -= static_cast<float>(scale);
  }
  return loss;
}

}  // namespace longhaul::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace longhaul::kernels {

HWY_EXPORT(LossOfRows);

double CrossEntropy(float* logits, const int64_t* targets, int64_t rows, int64_t classes,
                    double scale) {
  return HWY_DYNAMIC_DISPATCH(LossOfRows)(logits, targets, rows, classes, scale);
}

}  // namespace longhaul::kernels
#endif  // HWY_ONCE

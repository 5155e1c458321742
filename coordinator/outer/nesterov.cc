#include "coordinator/outer/nesterov.h"

#include "common/base/check.h"

namespace longhaul {

void Nesterov::Step(absl::Span<float> gradient, absl::Span<float> momentum) const {
  LH_CHECK(gradient.size() == momentum.size(), "spans differ");
  float* __restrict d = gradient.data();
  float* __restrict buf = momentum.data();
  const float lr = lr_, mu = mu_;
  for (size_t i = 0; i < gradient.size(); ++i) {
    buf[i] = mu * buf[i] + d[i];
    d[i] = lr * (d[i] + mu * buf[i]);
  }
}

}  // namespace longhaul

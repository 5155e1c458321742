// Nesterov momentum, the outer optimizer of DiLoCo (Douillard et al., 2023, Algorithm 1, line 14):
//   buf = mu * buf + D ;  step = lr * (D + mu * buf)
#pragma once

#include "coordinator/outer/outer_optimizer.h"

namespace longhaul {

class Nesterov : public OuterOptimizer {
 public:
  Nesterov(float lr, float momentum) : lr_(lr), mu_(momentum) {}
  double Step(absl::Span<float> gradient, absl::Span<float> momentum) const override;

 private:
  const float lr_, mu_;
};

}  // namespace longhaul

// Plain descent along the outer gradient: step = lr * D. It equals Nesterov without momentum, and
// keeps no state.
#pragma once

#include "coordinator/outer/outer_optimizer.h"

namespace longhaul {

class Sgd : public OuterOptimizer {
 public:
  explicit Sgd(float lr) : lr_(lr) {}
  double Step(absl::Span<float> gradient, absl::Span<float> momentum) const override;

 private:
  const float lr_;
};

}  // namespace longhaul

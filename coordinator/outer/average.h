// The last round of a job: step = D, so the outer parameters become the mean of the pools'
// parameters. One more momentum step would throw away a part of what was trained.
#pragma once

#include "coordinator/outer/outer_optimizer.h"

namespace longhaul {

class Average : public OuterOptimizer {
 public:
  void Step(absl::Span<float> gradient, absl::Span<float> momentum) const override {}
};

}  // namespace longhaul

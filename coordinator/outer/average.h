// The last round of a job: step = D. So the outer parameters become the mean of the pools'
// parameters. Another step with momentum would lose a part of the training.
#pragma once

#include "coordinator/outer/outer_optimizer.h"
#include "coordinator/outer/sum_of_squares.h"

namespace longhaul {

class Average : public OuterOptimizer {
 public:
  double Step(absl::Span<float> gradient, absl::Span<float>) const override {
    return SumOfSquares(gradient);
  }
};

}  // namespace longhaul

// The interface of outer optimizers: the averaged outer gradient D = mean(Theta - theta_m) of some
// elements becomes the step that is subtracted from their outer parameters. It is elementwise, so a
// fragment can be worked on tile by tile.
//
// All arithmetic is fp32. Each operation is rounded to nearest even, and there is no fused
// multiply-add. So equal inputs give equal bits on every machine, and recovery can repeat a round.
// Immutable and thread-safe; never blocks.
#pragma once

#include <memory>

#include "absl/types/span.h"

namespace longhaul {

class OuterOptimizer {
 public:
  virtual ~OuterOptimizer() = default;
  // Replaces D by the step, in place, and updates the momentum. The spans have the same size and do
  // not overlap. Returns SumOfSquares(D).
  virtual double Step(absl::Span<float> gradient, absl::Span<float> momentum) const = 0;
};

}  // namespace longhaul

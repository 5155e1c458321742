// The outer-optimizer seam: how the averaged outer gradient D = mean(Theta - theta_m) of some
// elements becomes the step that is subtracted from their outer parameters. Elementwise, so that a
// fragment is worked tile by tile.
//
// All arithmetic is fp32, each operation rounded to nearest even, no fused multiply-add: equal
// inputs give equal bits on every machine, and recovery can repeat a round. Immutable and
// thread-safe; never blocks.
#pragma once

#include <memory>

#include "absl/types/span.h"

namespace longhaul {

class OuterOptimizer {
 public:
  virtual ~OuterOptimizer() = default;
  // Replaces D by the step, in place, and advances the momentum. Spans of one size that do not
  // overlap. Returns SumOfSquares(D).
  virtual double Step(absl::Span<float> gradient, absl::Span<float> momentum) const = 0;
};

}  // namespace longhaul

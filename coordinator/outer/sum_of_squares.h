// Sum of squares in double, in one fixed order that no compiler changes: 16 lane sums (lane i sums
// the elements i + 16 k), then a halving tree. The norms in commits are computed with it.
#pragma once

#include "absl/types/span.h"

namespace longhaul {

double SumOfSquares(absl::Span<const float> values);

}  // namespace longhaul

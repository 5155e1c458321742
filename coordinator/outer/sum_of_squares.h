// Sum of squares in double, in one fixed order whatever the compiler does: 16 lane sums, lane i of
// elements i + 16k, then a halving tree. Norms that go into commits come from it.
#pragma once

#include "absl/types/span.h"

namespace longhaul {

double SumOfSquares(absl::Span<const float> values);

}  // namespace longhaul

// Sum of squares, in double and in a fixed order: eight lanes over each block of 128 values, folded
// block by block. The bits depend on the values alone, not on the machine's vector width.
#pragma once

#include "absl/types/span.h"

namespace longhaul {

double SquaredNorm(absl::Span<const float> values);

}  // namespace longhaul

// Sum of squares, in double and in a fixed order: eight lanes over each block of 128 values, folded
// block by block. The bits depend on the values alone, not on the machine's vector width or the
// number of threads.
#pragma once

#include "absl/types/span.h"
#include "common/base/thread_team.h"

namespace longhaul {

// `team` may be null.
double SquaredNorm(absl::Span<const float> values, ThreadTeam* team = nullptr);

}  // namespace longhaul

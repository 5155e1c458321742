// The sum of squares, in double and in a fixed order: eight lanes over each block of 128 values;
// the blocks' sums are added one after another. The bits depend only on the values, not on the
// machine's vector width or the number of threads.
#pragma once

#include <cstdint>

#include "absl/types/span.h"
#include "common/base/thread_team.h"

namespace longhaul {

inline constexpr int64_t kSquaredBlock = 128;

// `team` computes. Null: the calling thread does.
double SquaredNorm(absl::Span<const float> values, ThreadTeam* team = nullptr);

}  // namespace longhaul

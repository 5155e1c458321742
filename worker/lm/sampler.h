// Chooses the next token of a text from its logits. Pure.
#pragma once

#include <cstdint>

#include "absl/types/span.h"

namespace longhaul {

struct SamplingOptions {
  // 0: the most probable token, or the first of several equal ones.
  double temperature = 1;
  // Only the most probable tokens are drawn from: as few as have this probability together.
  double top_p = 1;
};

// `uniform`, a random number in [0, 1), decides. Logits are finite, and there is at least one.
int64_t ChooseToken(absl::Span<const float> logits, const SamplingOptions& options, double uniform);

}  // namespace longhaul

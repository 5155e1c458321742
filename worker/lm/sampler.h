// Chooses the next token of a text from its logits. Pure.
#pragma once

#include <cstdint>

#include "absl/types/span.h"

namespace longhaul {

struct SamplingOptions {
  double temperature = 1;  // 0: the most probable token (the first of several).
  // The most probable tokens that have this much of the probability together; the others are left out.
  double top_p = 1;
};

// `uniform` in [0, 1) decides. Logits are finite, at least one.
int64_t ChooseToken(absl::Span<const float> logits, const SamplingOptions& options, double uniform);

}  // namespace longhaul

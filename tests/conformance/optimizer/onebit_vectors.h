// 1-bit Adam and 0/1 Adam of a pool on given numbers: the product's optimizer, exchange and
// decisions when to freeze and to synchronise, with ranks as threads.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "worker/optim/onebit_adam_options.h"

namespace longhaul {

struct OneBitVectors {
  OneBitAdamOptions options;
  double rate = 0;
  int ranks = 1;
  // One matrix, with weight decay.
  int64_t rows = 0, columns = 0, steps = 0;
  // Steps. 0: ranks synchronise by the schedule alone.
  int64_t settle_every = 0;
  // Gradients by step, then by rank.
  absl::Span<const float> initial, gradients;
};

// The parameters after each step, one after another; those of the first rank where ranks differ by
// local steps. Errors: those of the exchange. INTERNAL: the ranks' parameters are not equal where
// they should be.
absl::StatusOr<std::vector<float>> RunOneBitVectors(const OneBitVectors& vectors);

}  // namespace longhaul

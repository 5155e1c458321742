// 1-bit Adam of a pool on anybody's numbers: the product's optimizer, exchange and decision to freeze,
// with ranks as threads.
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
  int64_t rows = 0, columns = 0, steps = 0;    // One matrix, with weight decay.
  absl::Span<const float> initial, gradients;  // Gradients by step, then by rank.
};

// Parameters after each step, one after another. Errors: those of the exchange. INTERNAL: the ranks'
// parameters are not equal.
absl::StatusOr<std::vector<float>> RunOneBitVectors(const OneBitVectors& vectors);

}  // namespace longhaul

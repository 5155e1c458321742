// Checks, before anything is allocated, whether a node has enough memory for what its ranks
// offload, and for their evaluations beside training. Pure.
#pragma once

#include <cstdint>

#include "absl/status/status.h"

namespace longhaul {

// The host memory that offloading takes, for one rank, in bytes.
struct OffloadNeed {
  int64_t masters = 0;
  // Copies of the weights in addition to the masters.
  int64_t weights = 0;
  // Moments, gradients, staging.
  int64_t optimizer = 0;
  // The memory of an emulated device.
  int64_t emulated = 0;
  int64_t total() const { return masters + weights + optimizer + emulated; }
};

// FAILED_PRECONDITION: `available` bytes are too few for `ranks` ranks; the message has the
// numbers.
absl::Status CheckHostMemory(const OffloadNeed& need, int ranks, int64_t available);

// The memory that evaluation beside training takes, for one rank. Sizes in bytes.
struct EvaluationNeed {
  int copies = 0;
  // One copy of the weights.
  int64_t copy = 0;
  int64_t activations = 0;
  int64_t total() const { return copies * copy + activations; }
};
// As CheckHostMemory.
absl::Status CheckEvaluationMemory(const EvaluationNeed& need, int ranks, int64_t available);

}  // namespace longhaul

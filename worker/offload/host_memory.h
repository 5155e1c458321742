// Whether a node's memory holds what its ranks offload, or evaluate beside training, found before
// anything is allocated.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace longhaul {

// Of one rank, in bytes.
struct OffloadNeed {
  int64_t masters = 0, weights = 0;  // `weights`: beside the masters.
  int64_t optimizer = 0;             // Moments, gradients, staging.
  int64_t emulated = 0;              // What a device would hold, were it not emulated.
  int64_t total() const { return masters + weights + optimizer + emulated; }
};

// What this process may still use: the least of what the machine and its cgroup have left. NOT_FOUND:
// the system does not say. `root`: of the system's files.
absl::StatusOr<int64_t> AvailableHostMemory(const std::string& root = "");

// FAILED_PRECONDITION: `ranks` ranks of this need have no room; with the numbers.
absl::Status CheckHostMemory(const OffloadNeed& need, int ranks, int64_t available);

// What evaluation beside training takes of one rank, in bytes.
struct EvaluationNeed {
  int copies = 0;
  int64_t copy = 0;  // Of the weights.
  int64_t activations = 0;
  int64_t total() const { return copies * copy + activations; }
};
// As above.
absl::Status CheckEvaluationMemory(const EvaluationNeed& need, int ranks, int64_t available);

}  // namespace longhaul

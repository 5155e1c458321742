// Which seeds a rank gets at a step: a pure function, for any number of ranks. Seeds are taken in
// epochs; each is a permutation of all of them, cut into batches whose sizes differ by one at most.
// So every seed comes once in an epoch, no batch is much smaller than the others, and a pool with
// fewer seeds than the batch takes all of them at every step. A rank may get none. Immutable, so
// thread-safe.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"

namespace longhaul {

class SeedPlan {
 public:
  struct Options {
    // How many there are: training nodes, or edges to predict.
    int64_t seeds = 0;
    // The most that the pool takes in a step.
    int64_t batch = 0;
    uint64_t seed = 0;
    // The pool's ordinal. Pools of one job go through their seeds in other orders.
    int64_t pool = 0;
  };
  // INVALID_ARGUMENT: no seeds, or no batch.
  static absl::StatusOr<SeedPlan> Create(const Options& options);

  int64_t steps_of_epoch() const { return steps_; }
  // Of the whole pool. `step` counts from 1.
  int64_t BatchOf(int64_t step) const;
  // Numbers from 0 to seeds - 1. The ranks' parts, one after another, are the pool's batch.
  std::vector<int64_t> Take(int64_t step, int rank, int ranks) const;

 private:
  explicit SeedPlan(const Options& options);

  Options options_;
  int64_t steps_;
};

}  // namespace longhaul

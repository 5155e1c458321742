// Makes the ranks of a pool agree, after a step, whether any of them was asked to stop, and how far
// the other pools are. It takes a collective. With sync.mode QUORUM they do it after each step,
// else about once a second: each time they also agree on the number of steps until the next time.
// Called from the training thread.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "worker/replica/replica.h"

namespace longhaul::session {

class StepAgreement {
 public:
  struct Values {
    // This rank was asked to stop. Agreed: some rank was.
    bool drain = false;
    // Session::called_step. Agreed: the furthest of all ranks.
    int64_t called = 0;
  };
  // Returns what was agreed on, the same on all ranks. Call after each step, on all ranks.
  // `step_seconds`: the time of the step on this rank. Collective, blocks. Errors: those of
  // Replica::AllGather.
  absl::StatusOr<Values> AfterStep(Replica& replica, int64_t step, double step_seconds,
                                   const Values& own, bool each_step);

 private:
  // The step after which the ranks ask each other again.
  int64_t next_ = 0;
};

}  // namespace longhaul::session

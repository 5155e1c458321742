// Makes the ranks of a pool agree whether any of them was asked to stop. It takes a collective, so
// they do it about once a second; each time they also agree on the number of steps until the next
// time. Called from the training thread.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "worker/replica/replica.h"

namespace longhaul::session {

class DrainAgreement {
 public:
  // Returns whether some rank was asked: the same answer on all ranks. Call after each step, on all
  // ranks. `asked`: this rank was asked. `step_seconds`: the time of the step on this rank.
  // Collective, blocks. Errors: those of Replica::AllGather.
  absl::StatusOr<bool> AfterStep(Replica& replica, int64_t step, double step_seconds, bool asked);

 private:
  // The step after which the ranks ask each other again.
  int64_t next_ = 0;
};

}  // namespace longhaul::session

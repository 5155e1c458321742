// Whether any rank of a pool was asked to stop: the same answer on all of them. They ask each other
// about once a second, since it takes a collective; each exchange also agrees on the number of
// steps until the next. Of the training thread.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "worker/replica/replica.h"

namespace longhaul::session {

class DrainAgreement {
 public:
  // Collective: after each step, on all ranks. `asked`: this rank was asked. `step_seconds`: how
  // long the step took here. Errors: those of Replica::AllGather.
  absl::StatusOr<bool> AfterStep(Replica& replica, int64_t step, double step_seconds, bool asked);

 private:
  int64_t next_ = 0;
};

}  // namespace longhaul::session

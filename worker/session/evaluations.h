// The evaluations of a rank's session. Training waits for each one; or, if the replica supports it,
// a copy of the parameters is evaluated beside the next steps. A report names the step and the
// version whose parameters were evaluated. When the session ends, evaluations that still run are
// dropped.
//
// Called from the training thread. The ranks of a pool agree on everything that decides which
// evaluations are begun, waited for and reported, so their collectives match. Errors: those of the
// replica.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "worker/replica/replica.h"
#include "worker/session/core/action.h"
#include "worker/session/outer_fragment.h"
#include "worker/session/session_observer.h"

namespace longhaul::session {

class Evaluations {
 public:
  // The references outlive the object. `steps_max`: training waits for an evaluation that is not
  // done after so many steps, so that results of all pools come in order. 0: it does not wait.
  Evaluations(Replica& replica, const std::vector<std::unique_ptr<OuterFragment>>& fragments,
              Clock& clock, int64_t steps_max, const SessionObserver& observer);

  // Evaluates, or begins to. `steps_follow`: training goes on, so the evaluation may run beside it.
  // Collective, blocks.
  absl::Status Do(const Evaluate& action, bool steps_follow);
  // Reports the evaluations that are done. If no steps follow, waits for all. Call after each step.
  // Collective.
  absl::Status AfterStep(int64_t step, bool steps_follow);

  // Whether evaluations run beside training.
  bool beside() const { return !begun_.empty(); }
  // How long training has waited for evaluations.
  absl::Duration stood_still() const { return stood_still_; }
  // How long, until `now`, at least one evaluation was running, beside training or not.
  absl::Duration busy(absl::Time now) const;

 private:
  absl::Status InPlace(const Evaluate& action);
  absl::Status Begin(const Evaluate& action);
  // Reports the oldest evaluation beside training. False: it is not done; with `wait` it always is.
  absl::StatusOr<bool> Take(bool wait);
  void Tell(const Evaluate& action, const EvalStats& stats) const;

  Replica& replica_;
  const std::vector<std::unique_ptr<OuterFragment>>& fragments_;
  Clock& clock_;
  const int64_t steps_max_;
  const SessionObserver& observer_;
  // Beside training and not reported, oldest first.
  std::deque<Evaluate> begun_;
  std::optional<absl::Time> busy_since_;
  absl::Duration stood_still_, busy_;
};

}  // namespace longhaul::session

// The evaluations of a rank's session: each in training's place, or, with a replica that was made for
// it, of a copy beside the steps that follow. What is reported names the step and the version whose
// parameters were evaluated, and comes so many steps later at most. What runs when the session ends is
// given up.
//
// Of the training thread. Which evaluations are begun, waited for and reported follows from what the
// ranks of a pool agree on, so their collectives match. Errors: the replica's.
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
#include "worker/session/rank_session.h"

namespace longhaul::session {

class Evaluations {
 public:
  using Report = std::function<void(const EvaluationResult&)>;
  // All outlive the object. `steps_max`: after so many steps training waits for an evaluation, so that
  // results come in their order, whichever pool they are from; 0: it does not. `report` may be empty.
  Evaluations(Replica& replica, const std::vector<std::unique_ptr<OuterFragment>>& fragments,
              Clock& clock, int64_t steps_max, Report report);

  // `steps_follow`: else there is nothing to do it beside. Collective.
  absl::Status Do(const Evaluate& action, bool steps_follow);
  // Reports those that are done; all of them if no steps follow. Collective.
  absl::Status AfterStep(int64_t step, bool steps_follow);

  // Whether some run beside training.
  bool beside() const { return !begun_.empty(); }
  // While training stood still for them.
  absl::Duration stood_still() const { return stood_still_; }
  // Until `now`, while there was any, in training's place or beside it.
  absl::Duration busy(absl::Time now) const;

 private:
  absl::Status InPlace(const Evaluate& action);
  absl::Status Begin(const Evaluate& action);
  // Reports the oldest that runs beside training, if it is done, or waits for it. False: it is not.
  absl::StatusOr<bool> Take(bool wait);
  void Tell(const Evaluate& action, const EvalStats& stats) const;

  Replica& replica_;
  const std::vector<std::unique_ptr<OuterFragment>>& fragments_;
  Clock& clock_;
  const int64_t steps_max_;
  const Report report_;
  std::deque<Evaluate> begun_;  // Beside training, and not reported, oldest first.
  std::optional<absl::Time> busy_since_;
  absl::Duration stood_still_, busy_;
};

}  // namespace longhaul::session

#include "worker/session/evaluations.h"

#include "absl/cleanup/cleanup.h"
#include "common/base/status_macros.h"
#include "worker/session/outer_evaluation.h"

namespace longhaul::session {

Evaluations::Evaluations(Replica& replica,
                         const std::vector<std::unique_ptr<OuterFragment>>& fragments, Clock& clock,
                         int64_t steps_max, const SessionObserver& observer)
    : replica_(replica),
      fragments_(fragments),
      clock_(clock),
      steps_max_(steps_max),
      observer_(observer) {}

absl::Duration Evaluations::busy(absl::Time now) const {
  return busy_ + (busy_since_.has_value() ? now - *busy_since_ : absl::ZeroDuration());
}

absl::Status Evaluations::Do(const Evaluate& action, bool steps_follow) {
  const absl::Time begin = clock_.Now();
  if (!busy_since_.has_value()) busy_since_ = begin;
  const absl::Cleanup account = [&] {
    const absl::Time end = clock_.Now();
    stood_still_ += end - begin;
    if (beside()) return;
    busy_ += end - *busy_since_;
    busy_since_.reset();
  };
  const int beside_max = steps_follow ? replica_.EvaluationsBeside() : 0;
  while (beside() && static_cast<int>(begun_.size()) >= beside_max)
    LH_RETURN_IF_ERROR(Take(/*wait=*/true).status());
  return beside_max > 0 ? Begin(action) : InPlace(action);
}

absl::Status Evaluations::AfterStep(int64_t step, bool steps_follow) {
  if (!beside()) return absl::OkStatus();
  while (beside()) {
    const bool late = steps_max_ > 0 && step >= begun_.front().step + steps_max_;
    const absl::Time asked = clock_.Now();
    LH_ASSIGN_OR_RETURN(const bool taken, Take(/*wait=*/late || !steps_follow));
    if (!taken) return absl::OkStatus();
    if (late || !steps_follow) stood_still_ += clock_.Now() - asked;
  }
  busy_ += clock_.Now() - *busy_since_;
  busy_since_.reset();
  return absl::OkStatus();
}

absl::Status Evaluations::InPlace(const Evaluate& action) {
  absl::StatusOr<EvalStats> stats;
  const auto evaluate = [&] {
    stats = Observed(observer_, 0, [this] { return replica_.Evaluate(); });
    if (!action.final || !stats.ok()) return stats.status();
    auto test = Observed(observer_, 0, [this] { return replica_.EvaluateTest(); });
    if (!test.ok()) return test.status();
    stats->metrics.insert(stats->metrics.end(), test->begin(), test->end());
    return stats.status();
  };
  LH_RETURN_IF_ERROR(action.of_pool ? evaluate()
                                    : WithOuterParameters(replica_, fragments_, evaluate));
  Tell(action, *stats);
  return absl::OkStatus();
}

absl::Status Evaluations::Begin(const Evaluate& action) {
  const auto begin = [this] { return replica_.BeginEvaluation(); };
  LH_RETURN_IF_ERROR(action.of_pool ? begin() : WithOuterParameters(replica_, fragments_, begin));
  begun_.push_back(action);
  return absl::OkStatus();
}

absl::StatusOr<bool> Evaluations::Take(bool wait) {
  const auto take = [&] { return replica_.TakeEvaluation(wait); };
  LH_ASSIGN_OR_RETURN(const std::optional<EvalStats> stats,
                      wait ? Observed(observer_, 0, take) : take());
  if (!stats.has_value()) return false;
  Tell(begun_.front(), *stats);
  begun_.pop_front();
  return true;
}

void Evaluations::Tell(const Evaluate& action, const EvalStats& stats) const {
  if (!observer_.on_evaluation) return;
  observer_.on_evaluation({action.step, action.version, stats.loss, stats.tokens, action.final,
                           action.of_pool, stats.metrics});
}

}  // namespace longhaul::session

#include "coordinator/core/coordinator.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"

namespace longhaul::coordinator {

Coordinator::Coordinator(const CoordinatorOptions& options, const Recovery& recovery,
                         absl::Time now)
    : options_(options),
      membership_({.lease = options.lease, .members_max = options.pools_max}),
      now_(now) {
  for (const RecoveredJob& job : recovery.jobs) Recover(job);
}

void Coordinator::Recover(const RecoveredJob& recovered) {
  Job* job = jobs_.Add({.id = recovered.job,
                        .options = recovered.options,
                        .lifecycle = Lifecycle(recovered.state),
                        .changed_at = now_,
                        .final_evaluation = recovered.final_evaluation});
  LH_CHECK(job != nullptr, "a job was recovered twice");
  const JobOptions& options = job->options;
  Exchange& exchange =
      exchanges_
          .emplace(job->id,
                   Exchange(RoundPlan(options.schedule, options.steps, options.final_round)))
          .first->second;
  for (const RecoveredParticipant& p : recovered.participants) {
    LH_CHECK(p.ordinal == static_cast<int>(exchange.participants().all().size()),
             "recovered ordinals are dense");
    Participant& participant = exchange.participants().Add(p.pool, p.incarnation);
    participant.start_step = p.start_step;
    if (p.left || job->lifecycle.ended() || !membership_.Restore(p.pool, p.incarnation, now_)) {
      participant.presence = p.left ? Presence::kMissed : Presence::kLeft;
      continue;
    }
    places_[p.pool] = {job->id, p.ordinal};
  }
  for (int f = 0; f < static_cast<int>(recovered.fragments.size()); ++f) {
    const RecoveredFragment& fragment = recovered.fragments[f];
    exchange.Restore(f, fragment.version, fragment.evaluator, fragment.contributors, now_);
  }
  Touch(*job);
}

std::vector<Action> Coordinator::Step(const Event& event, absl::Time now) {
  LH_CHECK(now >= now_, "time goes forward");
  now_ = now;
  ExpireLeases();
  std::visit([this](const auto& e) { On(e); }, event);
  for (Job& job : jobs_.jobs()) {
    const bool overdue = job.final_evaluation_until <= now_ && !job.lifecycle.ended();
    if (overdue || touched_.contains(job.id)) Advance(job);
  }
  touched_.clear();
  AssignIdle();
  return std::exchange(out_, {});
}

absl::Time Coordinator::next_deadline() const {
  absl::Time deadline = membership_.next_expiry();
  for (const Job& job : jobs_.jobs()) {
    if (!job.lifecycle.ended()) deadline = std::min(deadline, job.final_evaluation_until);
  }
  return deadline;
}

}  // namespace longhaul::coordinator

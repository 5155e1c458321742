#include "coordinator/core/coordinator.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"

namespace longhaul::coordinator {

Coordinator::Coordinator(const CoordinatorOptions& options, const Recovery& recovery,
                         absl::Time now)
    : options_(options),
      membership_({.lease = options.lease,
                   .members_max = options.pools_max,
                   .lost_max = options.pools_max}),
      nodes_({.lease = options.lease, .pools_max = options.pools_max}),
      ended_(recovery, now),
      now_(now) {
  for (const RecoveredJob& job : recovery.jobs) Recover(job);
}

Job& Coordinator::AddJob(const std::string& id, const JobOptions& options, JobState state) {
  auto job = std::make_unique<Job>(Job{.id = id,
                                       .order = next_order_++,
                                       .options = options,
                                       .lifecycle = Lifecycle(state),
                                       .changed_at = now_});
  Job& added = *job;
  LH_CHECK(jobs_.emplace(id, std::move(job)).second, "a job is added once");
  in_order_[added.order] = &added;
  return added;
}

void Coordinator::Recover(const RecoveredJob& recovered) {
  Job& job = AddJob(recovered.job, recovered.options, recovered.state);
  job.owner = recovered.owner;
  if (recovered.unusable.has_value()) {
    job.fault = recovered.unusable;
    job.lifecycle.MoveTo(JobState::kQuarantined);
    return;
  }
  const JobOptions& options = job.options;
  job.exchange.emplace(RoundPlan(options.schedule, options.steps, options.final_round),
                       options.rounds);
  job.final_evaluation = recovered.final_evaluation;
  job.checkpoint_asked = recovered.checkpoint_asked;
  job.pause = recovered.pause;
  if (recovered.paused_by_guard) job.pause_checkpoint = FinalCheckpoint::kWritten;
  if (recovered.evaluation.has_value() && !IsPaused(job.pause)) {
    const auto& [step, loss] = *recovered.evaluation;
    job.divergence.Observe(options.guard, step, loss, now_);
  }
  const bool pausing = job.pause == PauseStage::kPausing;
  if (pausing) {
    job.paused_at = now_;
    job.stop_until = now_ + options_.stop;
  }
  for (const RecoveredPlace& place : recovered.places) {
    Participant participant{.pool = place.pool,
                            .incarnation = place.incarnation,
                            .ordinal = place.ordinal,
                            .start_step = place.start_step,
                            .stopping = pausing,
                            .return_until = place.return_until};
    // A pool has one place. If a job before this one has it already, the place in this job is given
    // up.
    const bool taken = !place.gone && places_.contains(place.pool);
    if (place.gone) {
      participant.presence = place.missed ? Presence::kMissed : Presence::kLeft;
      if (place.missed) outdated_[place.pool] = place.incarnation;
    } else if (!taken && place.return_until != absl::InfinitePast()) {
      participant.presence = Presence::kAway;
      places_[place.pool] = {job.id, place.ordinal};
    } else if (!taken && membership_.Restore(place.pool, place.incarnation, now_)) {
      places_[place.pool] = {job.id, place.ordinal};
    } else {
      participant.presence = Presence::kLeft;
      Persist(job, participant);
    }
    job.exchange->participants().Restore(std::move(participant));
  }
  Touch(job);
}

Decision Coordinator::Step(const Event& event, absl::Time now) {
  LH_CHECK(now >= now_, "time goes forward");
  now_ = now;
  ExpireLeases();
  std::visit([this](const auto& e) { On(e); }, event);
  while (!due_.empty() && due_.begin()->first <= now_) {
    touched_.insert(due_.begin()->second);
    due_of_.erase(due_.begin()->second);
    due_.erase(due_.begin());
  }
  for (const std::string& id : std::exchange(touched_, {})) {
    if (Job* job = Find(id); job != nullptr) {
      Advance(*job);
      Reschedule(*job);
    }
  }
  Retire();
  ended_.Advance(
      now_, [this] { return MemoryLeft(TakesMemory); }, out_);
  if (placement_at_ <= now_) placement_due_ = true;
  if (std::exchange(placement_due_, false)) PlacePools();
  if (const auto granting = std::exchange(granting_, std::nullopt); granting.has_value())
    AnswerWith(Grant(granting->first, granting->second));
  return std::exchange(out_, {});
}

void Coordinator::Reschedule(Job& job) {
  if (const auto found = due_of_.find(job.id); found != due_of_.end()) {
    due_.erase({found->second, job.id});
    due_of_.erase(found);
  }
  if (job.ended()) return;
  absl::Time moment = absl::InfiniteFuture();
  if (job.finish_until != absl::InfiniteFuture() && job.final_checkpoint == FinalCheckpoint::kNone)
    moment = AwaitsPoolsUntil(job);
  for (const RetriedWork& retry : job.retries) moment = std::min(moment, retry.at);
  moment = std::min(moment, GuardActsAt(job));
  if (now_ < job.stop_until) moment = std::min(moment, job.stop_until);
  if (job.exchange.has_value()) {
    if (job.store == StoreState::kOpen) moment = std::min(moment, job.exchange->NextDue());
    for (const Participant& p : job.exchange->participants().all()) {
      if (p.presence == Presence::kAway) moment = std::min(moment, p.return_until);
    }
  }
  if (moment == absl::InfiniteFuture()) return;
  due_.insert({moment, job.id});
  due_of_[job.id] = moment;
}

Job* Coordinator::Find(std::string_view id) {
  const auto found = jobs_.find(id);
  return found == jobs_.end() ? nullptr : found->second.get();
}
const Job* Coordinator::Find(std::string_view id) const {
  return const_cast<Coordinator*>(this)->Find(id);
}

}  // namespace longhaul::coordinator

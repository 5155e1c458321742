// Jobs: how they are submitted, opened, cancelled, quarantined and ended, and how they wait for the
// coordinator's own disk.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/check.h"
#include "coordinator/core/coordinator.h"

namespace longhaul::coordinator {
namespace {

// How many jobs are remembered after their end.
constexpr size_t kEndedMax = 10000;

}  // namespace

void Coordinator::On(const SubmitJob& event) {
  if (Find(event.job) != nullptr || ended_.contains(event.job)) {
    return Answer(Refuse{absl::AlreadyExistsError(absl::StrFormat("job %s exists", event.job)),
                         "JOB_EXISTS"});
  }
  const JobOptions& options = event.options;
  Job& job = AddJob(event.job, options, JobState::kPending);
  job.exchange.emplace(RoundPlan(options.schedule, options.steps, options.final_round),
                       options.rounds);
  placement_due_ = true;
  Touch(job);
}

void Coordinator::On(const CancelJob& event) {
  const auto ended = ended_.find(event.job);
  if (ended != ended_.end() && ended->second.state == JobState::kCancelled) return;
  Job* job = FindLive(event.job);
  if (job == nullptr) return;
  job->fault.reset();
  if (!event.reason.empty()) job->fault = JobFault{.code = "CANCELLED", .message = event.reason};
  End(*job, JobState::kCancelled);
}

void Coordinator::On(const StoreOpened& event) {
  Job* job = Find(event.job);
  if (job == nullptr || job->ended() || job->store != StoreState::kOpening) return;
  Exchange& exchange = *job->exchange;
  LH_CHECK(static_cast<int>(event.fragments.size()) == exchange.plan().fragments(),
           "a store has the job's fragments");
  job->store = StoreState::kOpen;
  Unblock(*job);
  const Participants& participants = exchange.participants();
  for (int f = 0; f < exchange.plan().fragments(); ++f) {
    const RecoveredFragment& fragment = event.fragments[f];
    std::map<int, std::string> contributors;
    for (const Contributor& c : fragment.contributors) {
      const Participant* participant = participants.Find(c.pool, c.incarnation);
      if (participant != nullptr) contributors.emplace(participant->ordinal, c.incarnation);
    }
    exchange.Restore(f, fragment.version, fragment.evaluator, contributors, now_);
  }
  // Pools that drained and came back while the store was being opened.
  for (const Participant& p : participants.all()) {
    const Member* member = p.presence == Presence::kAway ? membership_.Find(p.pool) : nullptr;
    if (member != nullptr && member->live && member->joined && !member->draining)
      TakeBack(p.pool, member->incarnation);
  }
  // The coordinator may have restarted after the cycle of a requested checkpoint and before it was
  // written. The store makes earlier versions again.
  if (job->checkpoint_asked > 0) CheckpointDue(*job, job->checkpoint_asked);
  placement_due_ = true;
  Touch(*job);
}

void Coordinator::On(const OpenFailed& event) {
  Job* job = Find(event.job);
  if (job == nullptr || job->ended() || job->store != StoreState::kOpening) return;
  if (IsFinal(*job, event.fault)) return;
  Block(*job, event.fault.fault.message,
        OpenStore{.job = job->id, .create = job->state() <= JobState::kSeeding});
}

void Coordinator::On(const ApplyFailed& event) {
  Job* job = Find(event.job);
  if (job == nullptr || job->store != StoreState::kOpen) return;
  if (IsFinal(*job, event.fault)) return;
  const FragmentProgress& fragment = job->exchange->fragment(event.fragment);
  ApplyRound again{.job = job->id,
                   .fragment = event.fragment,
                   .version = event.version,
                   .kind = fragment.kind,
                   .evaluator = fragment.evaluator};
  for (const auto& [ordinal, incarnation] : fragment.round->contributors()) {
    again.contributors.push_back(
        {ordinal, job->exchange->participants().at(ordinal).pool, incarnation});
  }
  Block(*job, event.fault.fault.message, std::move(again));
}

void Coordinator::On(const StoreFailed& event) {
  Job* job = Find(event.job);
  if (job != nullptr && !job->ended()) Quarantine(*job, event.fault);
}

bool Coordinator::IsFinal(Job& job, const WorkFault& fault) {
  if (fault.fails_job) {
    job.fault = fault.fault;
    End(job, JobState::kFailed);
  } else if (!fault.retry) {
    Quarantine(job, fault.fault);
  }
  return fault.fails_job || !fault.retry;
}

void Coordinator::Block(Job& job, const std::string& what, Work work, absl::Duration delay) {
  if (job.blocked.empty()) job.blocked_since = now_;
  job.blocked = what;
  job.retries.push_back({now_ + delay, std::move(work)});
  Touch(job);
}

void Coordinator::Unblock(Job& job) {
  if (!job.retries.empty()) return;
  job.blocked.clear();
}

void Coordinator::MoveTo(Job& job, JobState state) {
  job.lifecycle.MoveTo(state);
  job.changed_at = now_;
  out_.records.push_back(StoreJobState{job.id, state, job.fault});
}

void Coordinator::End(Job& job, JobState state) {
  if (state != JobState::kCompleted) CheckpointLeft(job, /*last=*/true);
  MoveTo(job, state);
  out_.notices.push_back(EndJob{job.id, state, job.fault});
  if (job.exchange.has_value()) {
    for (Participant& p : job.exchange->participants().all()) {
      if (p.gone()) continue;
      const bool live = p.live();
      p.presence = Presence::kLeft;
      places_.erase(p.pool);
      if (live) membership_.Requeue(p.pool);
    }
  }
  placement_due_ = true;
  retired_.push_back(job.id);
}

// The job's pools give up their places and are free for other jobs. The state is not stored, so the
// next start of the coordinator tries again from the state before.
void Coordinator::Quarantine(Job& job, JobFault fault) {
  // One fault is often reported twice: by the work that met it, and by the store.
  if (job.state() == JobState::kQuarantined) return;
  job.fault = std::move(fault);
  job.lifecycle.MoveTo(JobState::kQuarantined);
  job.changed_at = now_;
  job.store = StoreState::kClosed;
  job.retries.clear();
  job.finish_until = job.evaluate_until = absl::InfiniteFuture();
  job.blocked.clear();
  placement_due_ = true;
  out_.notices.push_back(EndJob{job.id, JobState::kQuarantined, job.fault});
  ReleaseAll(job, absl::FailedPreconditionError(
                      absl::StrCat("job ", job.options.name, " is quarantined")));
}

void Coordinator::On(const StateFreed& event) {
  if (lingering_.erase(event.job) > 0) placement_due_ = true;
}

void Coordinator::Retire() {
  for (const std::string& id : std::exchange(retired_, {})) {
    const auto found = jobs_.find(id);
    EndedJob& ended =
        ended_[id] = {.name = found->second->options.name, .state = found->second->state()};
    if (const auto& exchange = found->second->exchange; exchange.has_value()) {
      for (const Participant& p : exchange->participants().all()) ended.pools.insert(p.pool);
    }
    ended_order_.push_back(id);
    Keep({id, ended.state, found->second->changed_at});
    if (found->second->store != StoreState::kClosed)
      lingering_.emplace(id, found->second->options.memory);
    Reschedule(*found->second);
    in_order_.erase(found->second->order);
    jobs_.erase(found);
  }
  if (ended_order_.size() <= 2 * kEndedMax) return;
  for (size_t i = 0; i < kEndedMax; ++i) ended_.erase(ended_order_[i]);
  ended_order_.erase(ended_order_.begin(), ended_order_.begin() + kEndedMax);
}

}  // namespace longhaul::coordinator

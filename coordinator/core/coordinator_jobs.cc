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

// Of how many jobs it is remembered how they ended.
constexpr size_t kEndingsMax = 10000;

template <typename Kind>
bool AwaitsRetry(const Job& job) {
  return std::any_of(job.retries.begin(), job.retries.end(), [](const RetriedWork& retry) {
    return std::holds_alternative<Kind>(retry.work);
  });
}

// Between two tries the store is not open.
void StopRetryingToOpen(Job& job) {
  if (job.store == StoreState::kOpening && AwaitsRetry<OpenStore>(job))
    job.store = StoreState::kClosed;
}

}  // namespace

// An owner may have as many as there is room alongside them, so that none can take it all: a single
// one half.
std::optional<Refuse> Coordinator::RoomRefusal(const std::string& owner) const {
  const auto live = static_cast<int>(jobs_.size());
  const auto of_owner = static_cast<int>(std::count_if(
      jobs_.begin(), jobs_.end(), [&](const auto& entry) { return entry.second->owner == owner; }));
  if (of_owner < options_.jobs_max - live) return std::nullopt;
  return Refuse{
      .status = absl::ResourceExhaustedError(absl::StrFormat(
          "limit reached: %d unfinished jobs, %d of them of %s; at most %d in total, and one user "
          "may hold at most half of what is free",
          live, of_owner, owner.empty() ? "this submitter" : owner, options_.jobs_max)),
      .reason = "JOBS_FULL",
      .hint = "wait until jobs end, or cancel some (`longhaul list` shows them)"};
}

void Coordinator::On(const SubmitJob& event) {
  if (Find(event.job) != nullptr || ended_.Find(event.job) != nullptr ||
      endings_.contains(event.job)) {
    return AnswerWith(Refuse{absl::AlreadyExistsError(absl::StrFormat("job %s exists", event.job)),
                             "JOB_EXISTS"});
  }
  if (auto refusal = RoomRefusal(event.owner)) return AnswerWith(*std::move(refusal));
  const JobOptions& options = event.options;
  Job& job = AddJob(event.job, options, JobState::kPending);
  job.owner = event.owner;
  out_.records.push_back(StoreNewJob{event.job});
  job.exchange.emplace(RoundPlan(options.schedule, options.steps, options.final_round),
                       options.rounds);
  placement_due_ = true;
  Touch(job);
}

void Coordinator::On(const CancelJob& event) {
  const auto ending = endings_.find(event.job);
  if (ending != endings_.end() && ending->second.state == JobState::kCancelled) return;
  Job* job = FindLive(event.job);
  if (job == nullptr) return;
  job->fault.reset();
  if (!event.reason.empty()) job->fault = JobFault{.code = "CANCELLED", .message = event.reason};
  End(*job, JobState::kCancelled);
}

void Coordinator::On(const StoreOpened& event) {
  Job* job = Find(event.job);
  if (job == nullptr) return ended_.On(event, now_, out_);
  if (job->store != StoreState::kOpening) return;
  job->store = StoreState::kOpen;
  if (job->state() == JobState::kQuarantined) return Close(*job);
  Exchange& exchange = *job->exchange;
  LH_CHECK(static_cast<int>(event.fragments.size()) == exchange.plan().fragments(),
           "a store has the job's fragments");
  Unblock(*job);
  const Participants& participants = exchange.participants();
  for (int f = 0; f < exchange.plan().fragments(); ++f) {
    const RecoveredFragment& fragment = event.fragments[f];
    std::map<int, std::string> contributors;
    for (const Contributor& c : fragment.contributors) {
      const Participant* participant = participants.Find(c.pool, c.incarnation);
      if (participant != nullptr) contributors.emplace(participant->ordinal, c.incarnation);
    }
    Job::OuterFragment& outer = job->outer[f] = {.usual = fragment.outer.usual};
    for (const LeftOut& entry : fragment.outer.left_out) {
      const Participant* participant = participants.Find(entry.pool);
      if (participant != nullptr) outer.told[participant->ordinal] = false;
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
  if (job == nullptr) return ended_.On(event, now_, out_);
  if (job->store != StoreState::kOpening) return;
  if (!event.fault.retry || job->state() == JobState::kQuarantined) {
    job->store = StoreState::kClosed;
    placement_due_ = true;
  }
  if (job->state() == JobState::kQuarantined || IsFinal(*job, event.fault)) return;
  Block(*job, event.fault.fault.message,
        OpenStore{.job = job->id, .create = job->state() <= JobState::kSeeding});
}

void Coordinator::On(const ApplyFailed& event) {
  Job* job = Find(event.job);
  if (job == nullptr || job->store != StoreState::kOpen) return;
  if (event.damaged.has_value()) return Withdraw(*job, event);
  if (IsFinal(*job, event.fault)) return;
  Block(*job, event.fault.fault.message, WorkOf(*job, event.round.fragment));
}

// The pool believes that it contributed, and pools that were refused believe that the round goes on
// without them. So they restart.
void Coordinator::Withdraw(Job& job, const ApplyFailed& event) {
  Participants& participants = job.exchange->participants();
  const auto restart = [&](Participant& pool) {
    if (pool.live()) membership_.Requeue(pool.pool);
    Drop(job, pool, Presence::kMissed, absl::AbortedError(event.fault.fault.message));
  };
  if (const Participant* p = participants.Find(event.damaged->pool); p != nullptr) {
    Participant& pool = participants.at(p->ordinal);
    const std::vector<int> refused = job.exchange->Withdraw(event.round.fragment, pool.ordinal);
    job.outer[event.round.fragment].verdict.reset();
    if (!pool.gone() && pool.incarnation == event.damaged->incarnation) restart(pool);
    for (const int ordinal : refused) restart(participants.at(ordinal));
  }
  Touch(job);
}

void Coordinator::On(const StoreFailed& event) {
  Job* job = Find(event.job);
  if (job == nullptr) return ended_.On(event, now_, out_);
  Quarantine(*job, event.fault);
}

void Coordinator::On(const StoreClosed& event) {
  placement_due_ = true;
  ended_.MemoryFreed(now_);
  Job* job = Find(event.job);
  if (job == nullptr) return ended_.On(event, now_, out_);
  LH_CHECK(job->store == StoreState::kClosing, "a store is closed once");
  job->store = StoreState::kClosed;
  Touch(*job);
}

void Coordinator::Close(Job& job) {
  // A store that is being opened is closed once it is open.
  StopRetryingToOpen(job);
  job.retries.clear();
  if (job.store != StoreState::kOpen) return;
  job.store = StoreState::kClosing;
  out_.works.push_back(CloseStore{job.id});
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
  job.finish_until = job.evaluate_until = absl::InfiniteFuture();
  job.blocked.clear();
  placement_due_ = true;
  out_.notices.push_back(EndJob{job.id, JobState::kQuarantined, job.fault});
  Close(job);
  ReleaseAll(job, absl::FailedPreconditionError(
                      absl::StrCat("job ", job.options.name, " is quarantined")));
}

void Coordinator::Retire() {
  for (const std::string& id : std::exchange(retired_, {})) {
    const auto found = jobs_.find(id);
    Job& job = *found->second;
    StopRetryingToOpen(job);
    // The final checkpoint is the last one, unless its next try waits.
    const bool writing = job.state() != JobState::kCompleted &&
                         job.final_checkpoint == FinalCheckpoint::kWriting &&
                         !AwaitsRetry<WriteCheckpoint>(job);
    std::vector<int64_t> versions;
    // Its guard ended it, or a user cancelled it, after the final one.
    const bool whole = job.final_checkpoint == FinalCheckpoint::kWritten;
    if (job.state() != JobState::kCompleted && !whole) versions = VersionsLeft(job);
    ended_.Add(job, writing, std::move(versions), now_);
    endings_[id] = {.name = job.options.name, .state = job.state()};
    endings_order_.push_back(id);
    Reschedule(job);
    in_order_.erase(job.order);
    jobs_.erase(found);
  }
  while (endings_order_.size() > kEndingsMax) {
    endings_.erase(endings_order_.front());
    endings_order_.pop_front();
  }
}

}  // namespace longhaul::coordinator

// Jobs: submitted, cancelled, failed, ended.
#include "absl/strings/str_format.h"
#include "common/base/check.h"
#include "coordinator/core/coordinator.h"

namespace longhaul::coordinator {

void Coordinator::On(const SubmitJob& event) {
  Job* job = jobs_.Add({.id = event.job, .options = event.options, .changed_at = now_});
  if (job == nullptr) {
    return Emit(Refuse{absl::AlreadyExistsError(absl::StrFormat("job %s exists", event.job)),
                       "JOB_EXISTS"});
  }
  const JobOptions& options = event.options;
  exchanges_.emplace(event.job,
                     Exchange(RoundPlan(options.schedule, options.steps, options.final_round)));
  Emit(PersistJobState{event.job, JobState::kPending});
  idle_changed_ = true;
  Touch(*job);
}

void Coordinator::On(const CancelJob& event) {
  const Job* known = jobs_.Find(event.job);
  if (known != nullptr && known->lifecycle.state() == JobState::kCancelled) return;
  Job* job = FindLive(event.job);
  if (job == nullptr) return;
  if (!event.reason.empty()) job->fault = JobFault{.code = "CANCELLED", .message = event.reason};
  End(*job, JobState::kCancelled);
}

void Coordinator::On(const PoolFailed& event) {
  if (!RequireLease(event.pool, event.incarnation)) return;
  Job* job = FindLive(event.job);
  if (job == nullptr) return;
  const Participant* participant =
      exchange(*job).participants().Find(event.pool, event.incarnation);
  if (participant == nullptr || !participant->live()) {
    return Emit(Refuse{absl::FailedPreconditionError(absl::StrFormat(
                           "pool %s does not work on job %s", event.pool, event.job)),
                       "NOT_ASSIGNED"});
  }
  job->fault = event.fault;
  job->fault->pool = event.pool;
  End(*job, JobState::kFailed);
}

void Coordinator::On(const ApplyFailed& event) {
  Job* job = FindLive(event.job);
  if (job == nullptr) return;
  job->fault = event.fault;
  End(*job, JobState::kFailed);
}

void Coordinator::On(const EvaluationReported& event) {
  if (!event.final) return;
  Job* job = jobs_.Find(event.job);
  if (job == nullptr || job->lifecycle.ended()) return;
  job->final_evaluation = true;
  Touch(*job);
}

void Coordinator::MoveTo(Job& job, JobState state) {
  job.lifecycle.MoveTo(state);
  job.changed_at = now_;
  Emit(PersistJobState{job.id, state});
}

void Coordinator::End(Job& job, JobState state) {
  MoveTo(job, state);
  Emit(EndJob{job.id, state, job.fault});
  for (Participant& p : exchange(job).participants().all()) {
    const bool released = p.live();
    if (!p.gone()) p.presence = Presence::kLeft;
    if (!released) continue;
    places_.erase(p.pool);
    membership_.Requeue(p.pool);
    Emit(ReleasePool{p.pool, job.id});
  }
  idle_changed_ = true;
}

}  // namespace longhaul::coordinator

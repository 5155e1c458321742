#include "coordinator/core/ended_jobs.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "coordinator/sync/round_plan.h"

namespace longhaul::coordinator {
namespace {

// How long the last commits of an ended job can still be pulled. Its state is in memory so long.
constexpr absl::Duration kReadable = absl::Minutes(1);
// The time between two tries to remove files.
constexpr absl::Duration kRemoveDelay = absl::Seconds(10);
// The same for a last checkpoint, which may need memory, disk space, and its store to be opened.
constexpr absl::Duration kCheckpointDelay = absl::Minutes(1);

// Reports once why the last checkpoint is not written yet. A job that was deleted meanwhile needs
// none, and nobody knows it any more.
void Report(const std::string& id, EndedJob& job, const std::string& trouble, Decision& out) {
  if (job.deleted || job.trouble == trouble) return;
  job.trouble = trouble;
  out.notices.push_back(LastCheckpointMissing{id, trouble});
}

}  // namespace

EndedJobs::EndedJobs(const Recovery& recovery, absl::Time now) {
  for (const RecoveredEnd& end : recovery.ended) {
    EndedJob& job = jobs_[end.job];
    job.name = end.name;
    job.state = end.state;
    SetDue(end.job, job, now);
  }
  for (const std::string& id : recovery.removing) Delete(id, now);
}

const EndedJob* EndedJobs::Find(std::string_view id) const {
  const auto found = jobs_.find(id);
  return found == jobs_.end() ? nullptr : &found->second;
}
EndedJob* EndedJobs::FindJob(std::string_view id) {
  return const_cast<EndedJob*>(std::as_const(*this).Find(id));
}

void EndedJobs::SetStore(EndedJob& job, StoreState store) {
  if (job.store != StoreState::kClosed) memory_ -= job.options.memory;
  job.store = store;
  if (job.store != StoreState::kClosed) memory_ += job.options.memory;
}

void EndedJobs::SetDue(const std::string& id, EndedJob& job, absl::Time due) {
  due_.erase({job.due, id});
  job.due = due;
  if (due != absl::InfiniteFuture()) due_.insert({due, id});
}

void EndedJobs::WorkEnded(const std::string& id, EndedJob& job, absl::Time due) {
  job.busy = false;
  SetDue(id, job, due);
}

void EndedJobs::Forget(const std::string& id, Decision& out) {
  out.notices.push_back(ForgetJob{id});
  SetDue(id, jobs_.find(id)->second, absl::InfiniteFuture());
  jobs_.erase(id);
}

void EndedJobs::Add(const Job& job, bool writing, std::vector<int64_t> versions, absl::Time now) {
  EndedJob& ended = jobs_[job.id];
  ended.name = job.options.name;
  ended.state = job.state();
  ended.options = job.options;
  if (job.exchange.has_value()) {
    for (const Participant& p : job.exchange->participants().all()) ended.pools.insert(p.pool);
  }
  SetStore(ended, job.store);
  ended.busy = writing || job.store == StoreState::kOpening || job.store == StoreState::kClosing;
  if (ended.store == StoreState::kOpen) {
    ended.read_until = now + kReadable;
    ended.checkpoint =
        writing || !versions.empty() ? LastCheckpoint::kOwed : LastCheckpoint::kNotOwed;
    ended.versions = std::move(versions);
  }
  if (!ended.busy) SetDue(job.id, ended, now);
}

void EndedJobs::Delete(const std::string& id, absl::Time now) {
  EndedJob& job = jobs_[id];
  job.deleted = true;
  if (!job.busy) SetDue(id, job, now);
}

void EndedJobs::MemoryFreed(absl::Time now) {
  for (auto& [id, job] : jobs_)
    if (std::exchange(job.awaits_memory, false)) SetDue(id, job, now);
}

void EndedJobs::On(const StoreOpened& event, absl::Time now, Decision&) {
  EndedJob* const job = FindJob(event.job);
  if (job == nullptr || job->store != StoreState::kOpening) return;
  SetStore(*job, StoreState::kOpen);
  job->versions.clear();
  for (const RecoveredFragment& fragment : event.fragments)
    job->versions.push_back(fragment.version);
  const bool whole = std::all_of(job->versions.begin(), job->versions.end(),
                                 [](int64_t version) { return version >= 1; });
  job->checkpoint = whole ? LastCheckpoint::kOwed : LastCheckpoint::kNotOwed;
  WorkEnded(event.job, *job, now);
}

void EndedJobs::On(const OpenFailed& event, absl::Time now, Decision& out) {
  EndedJob* const job = FindJob(event.job);
  if (job == nullptr || job->store != StoreState::kOpening) return;
  SetStore(*job, StoreState::kClosed);
  if (!event.fault.retry) job->checkpoint = LastCheckpoint::kFailed;
  Report(event.job, *job, event.fault.fault.message, out);
  WorkEnded(event.job, *job, event.fault.retry ? now + kCheckpointDelay : now);
}

void EndedJobs::On(const StoreFailed& event, absl::Time now, Decision& out) {
  EndedJob* const job = FindJob(event.job);
  if (job == nullptr || job->checkpoint != LastCheckpoint::kOwed) return;
  job->checkpoint = LastCheckpoint::kFailed;
  Report(event.job, *job, event.fault.message, out);
  if (!job->busy) SetDue(event.job, *job, now);
}

void EndedJobs::On(const CheckpointWritten& event, absl::Time now, Decision&) {
  EndedJob* const job = FindJob(event.job);
  // That of a cycle, or of a pause, may have been in progress when the job ended.
  if (job == nullptr || !event.last) return;
  job->checkpoint = LastCheckpoint::kNotOwed;
  WorkEnded(event.job, *job, now);
}

void EndedJobs::On(const CheckpointFailed& event, absl::Time now, Decision& out) {
  EndedJob* const job = FindJob(event.job);
  if (job == nullptr || !event.last) return;
  if (!event.fault.retry) job->checkpoint = LastCheckpoint::kFailed;
  Report(event.job, *job, event.fault.fault.message, out);
  WorkEnded(event.job, *job, event.fault.retry ? now + kCheckpointDelay : now);
}

void EndedJobs::On(const StoreClosed& event, absl::Time now, Decision&) {
  EndedJob* const job = FindJob(event.job);
  if (job == nullptr || job->store != StoreState::kClosing) return;
  SetStore(*job, StoreState::kClosed);
  WorkEnded(event.job, *job, now);
}

void EndedJobs::On(const LogRemoved& event, absl::Time now, Decision& out) {
  removing_log_ = false;
  EndedJob* const job = FindJob(event.job);
  if (job == nullptr) return;
  if (job->deleted) return WorkEnded(event.job, *job, now);
  out.records.push_back(StoreCleanedUp{event.job});
  Forget(event.job, out);
}

void EndedJobs::On(const LogNeeded& event, absl::Time now, Decision& out) {
  removing_log_ = false;
  EndedJob* const job = FindJob(event.job);
  if (job == nullptr) return;
  if (job->checkpoint == LastCheckpoint::kNotOwed && !job->deleted) {
    // Not every fragment was synchronised. The log goes with the job.
    out.records.push_back(StoreCleanedUp{event.job});
    return Forget(event.job, out);
  }
  // A job that completed had its last checkpoint.
  const bool owed = event.options.has_value() && job->state != JobState::kCompleted;
  if (owed) job->options = *event.options;
  job->checkpoint = owed ? LastCheckpoint::kOwed : LastCheckpoint::kFailed;
  WorkEnded(event.job, *job, now);
}

void EndedJobs::On(const LogRemovalFailed& event, absl::Time now, Decision&) {
  removing_log_ = false;
  EndedJob* const job = FindJob(event.job);
  if (job == nullptr) return;
  if (!event.retry) job->checkpoint = LastCheckpoint::kFailed;
  WorkEnded(event.job, *job, event.retry ? now + kRemoveDelay : now);
}

void EndedJobs::On(const FilesRemoved& event, absl::Time, Decision& out) {
  if (FindJob(event.job) == nullptr) return;
  out.records.push_back(StoreRemoved{event.job});
  Forget(event.job, out);
}

void EndedJobs::On(const RemoveFailed& event, absl::Time now, Decision&) {
  if (EndedJob* job = FindJob(event.job); job != nullptr)
    WorkEnded(event.job, *job, now + kRemoveDelay);
}

void EndedJobs::Advance(absl::Time now, absl::FunctionRef<int64_t()> memory_left, Decision& out) {
  do {
    while (!due_.empty() && due_.begin()->first <= now) {
      const std::string id = due_.begin()->second;
      EndedJob& job = jobs_.find(id)->second;
      SetDue(id, job, absl::InfiniteFuture());
      Next(id, job, now, memory_left, out);
    }
  } while (!removing_log_ && NextTurn(now));
}

bool EndedJobs::NextTurn(absl::Time now) {
  if (turns_.empty()) return false;
  const std::string id = std::move(turns_.front());
  turns_.pop_front();
  // It may have been deleted meanwhile.
  if (EndedJob* job = FindJob(id); job != nullptr && !job->busy) SetDue(id, *job, now);
  return true;
}

void EndedJobs::Next(const std::string& id, EndedJob& job, absl::Time now,
                     absl::FunctionRef<int64_t()> memory_left, Decision& out) {
  const bool open = job.store == StoreState::kOpen;
  if (!job.deleted) {
    if (job.checkpoint == LastCheckpoint::kOwed)
      return MakeCheckpoint(id, job, now, memory_left, out);
    if (open && now < job.read_until) return SetDue(id, job, job.read_until);
    if (!open && job.checkpoint == LastCheckpoint::kFailed) return Forget(id, out);
    if (!open && removing_log_) return turns_.push_back(id);
  }
  job.busy = true;
  if (open) {
    SetStore(job, StoreState::kClosing);
    out.works.push_back(CloseStore{id});
  } else if (job.deleted) {
    out.works.push_back(RemoveFiles{id});
  } else {
    removing_log_ = true;
    out.works.push_back(RemoveLog{id});
  }
}

void EndedJobs::MakeCheckpoint(const std::string& id, EndedJob& job, absl::Time now,
                               absl::FunctionRef<int64_t()> memory_left, Decision& out) {
  if (job.store == StoreState::kOpen) {
    const RoundPlan plan(job.options.schedule, job.options.steps, job.options.final_round);
    out.works.push_back(WriteCheckpoint{
        .job = id, .step = plan.StepOf(job.versions), .last = true, .versions = job.versions});
  } else if (job.options.memory <= memory_left()) {
    SetStore(job, StoreState::kOpening);
    out.works.push_back(OpenStore{.job = id});
  } else {
    job.awaits_memory = true;
    Report(id, job, "not enough coordinator memory for the job's state right now", out);
    return SetDue(id, job, now + kCheckpointDelay);
  }
  job.awaits_memory = false;
  job.busy = true;
}

}  // namespace longhaul::coordinator

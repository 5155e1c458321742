// How jobs are paused: their pools stop, what they sent is committed and written as a checkpoint,
// and the store is closed. A job that is resumed continues as after a restart of the coordinator.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/counted.h"
#include "common/base/names.h"
#include "coordinator/core/coordinator.h"

namespace longhaul::coordinator {
namespace {

bool IsApplying(const Exchange& rounds) {
  for (int f = 0; f < rounds.plan().fragments(); ++f) {
    const auto& round = rounds.fragment(f).round;
    if (round.has_value() && round->applying()) return true;
  }
  return false;
}

absl::Status Paused(const Job& job) {
  return absl::FailedPreconditionError(
      absl::StrCat("job ", job.options.name, " is being paused; this pool is idle meanwhile"));
}

}  // namespace

void Coordinator::SetPause(Job& job, PauseStage stage, const std::string& by,
                           const std::string& reason) {
  job.pause = stage;
  job.changed_at = now_;
  out_.records.push_back(StorePause{job.id, stage, by, reason});
  placement_due_ = true;
  Touch(job);
}

void Coordinator::On(const PauseJob& event) {
  if (auto refusal = JobRefusal(event.job)) return AnswerWith(*std::move(refusal));
  Job& job = *Find(event.job);
  if (IsPaused(job.pause)) return;
  if (job.state() == JobState::kFinishing) {
    return AnswerWith(
        Refuse{.status = absl::FailedPreconditionError(absl::StrFormat(
                   "job %s is about to end: its last rounds are committed", job.options.name)),
               .reason = "JOB_FINISHING",
               .hint = "it releases its pools within a minute"});
  }
  BeginPause(job, event.by, event.reason);
}

void Coordinator::BeginPause(Job& job, const std::string& by, const std::string& reason) {
  job.paused_at = now_;
  job.stop_until = now_ + options_.stop;
  job.pause_checkpoint_outdated = job.pause_checkpoint == FinalCheckpoint::kWriting;
  if (!job.pause_checkpoint_outdated) job.pause_checkpoint = FinalCheckpoint::kNone;
  SetPause(job, PauseStage::kPausing, by, reason);
  for (Participant& p : job.exchange->participants().all()) {
    if (p.gone()) continue;
    // Pools that have not begun have nothing to send.
    if (p.ready() && job.state() != JobState::kPending) {
      p.stopping = true;
      continue;
    }
    Release(job, p, Paused(job));
  }
}

void Coordinator::On(const ResumeJob& event) {
  if (auto refusal = JobRefusal(event.job)) return AnswerWith(*std::move(refusal));
  Job& job = *Find(event.job);
  if (!IsPaused(job.pause)) return;
  // A job that has begun opens its store at once.
  if (job.state() != JobState::kPending) {
    if (const auto lack = MemoryLack(job, MemoryLeft(TakesMemory)); lack.has_value()) {
      return AnswerWith(Refuse{.status = absl::ResourceExhaustedError(
                                   absl::StrFormat("job %s needs %s", job.options.name, *lack)),
                               .reason = "MEMORY_FULL",
                               .hint = "resume it when other jobs have ended or are paused"});
    }
  }
  job.divergence = {};
  SetPause(job, PauseStage::kResumed, event.by);
  KeepPools(job);
}

// Pools that have not begun to stop need not.
void Coordinator::KeepPools(Job& job) {
  for (Participant& p : job.exchange->participants().all()) p.stopping &= p.last_step.has_value();
}

// A pool that stops is ready until it has stopped, so that rounds which it no longer owes are
// applied first. A pool that is lost or away has nothing to come back to.
bool Coordinator::ReleaseStopped(Job& job) {
  bool released = false;
  for (Participant& p : job.exchange->participants().all()) {
    if (job.pause != PauseStage::kPausing || p.gone() || p.live()) continue;
    Release(job, p, Paused(job));
    released = true;
  }
  // After a restart, what the pools have contributed is known once the store is open.
  if (job.store == StoreState::kOpening && now_ < job.stop_until) return released;
  for (Participant& p : job.exchange->participants().all()) {
    if (!p.live() || (!p.stopping && !p.stopped)) continue;
    const Member& member = *membership_.Find(p.pool);
    // What a pool can is known once it has joined again after a restart.
    const bool stops = !member.joined || member.traits.capabilities.contains(kStopsWhenAsked);
    if (!p.stopped && stops && now_ < job.stop_until) continue;
    Release(job, p, Paused(job));
    released = true;
  }
  return released;
}

void Coordinator::PauseCheckpointEnded(Job& job) {
  job.pause_checkpoint = std::exchange(job.pause_checkpoint_outdated, false)
                             ? FinalCheckpoint::kNone
                             : FinalCheckpoint::kWritten;
}

void Coordinator::SettlePause(Job& job) {
  if (job.pause != PauseStage::kPausing) return;
  const Participants& participants = job.exchange->participants();
  const bool moves = job.store == StoreState::kOpening || job.store == StoreState::kClosing;
  if (participants.live_count() > 0 || moves || !job.retries.empty()) return;
  if (job.store == StoreState::kOpen) {
    // A round that its quorum has contributed to is applied first.
    if (IsApplying(*job.exchange) || job.exchange->NextDue() != absl::InfiniteFuture()) return;
    if (job.pause_checkpoint == FinalCheckpoint::kNone) {
      job.pause_checkpoint =
          PauseCheckpoint(job) ? FinalCheckpoint::kWriting : FinalCheckpoint::kWritten;
    }
    if (job.pause_checkpoint == FinalCheckpoint::kWriting) return;
  }
  Close(job);
  SetPause(job, PauseStage::kPaused);
}

std::optional<Waiting> Coordinator::WaitingToPause(const Job& job) const {
  if (job.pause == PauseStage::kPaused) return std::nullopt;
  const int live = job.exchange->participants().live_count();
  if (live > 0) {
    return Waiting{absl::StrFormat("%s to send %s contributions and to stop", Counted(live, "pool"),
                                   live == 1 ? "its" : "their"),
                   job.paused_at, job.stop_until};
  }
  return Waiting{job.pause_checkpoint == FinalCheckpoint::kWriting ? "its checkpoint"
                                                                   : "its rounds to be committed",
                 job.paused_at, absl::InfiniteFuture()};
}

}  // namespace longhaul::coordinator

// Checkpoints: when they are due, and what follows when they are written or fail. How jobs are
// deleted.
#include <algorithm>

#include "absl/strings/str_format.h"
#include "common/base/check.h"
#include "coordinator/core/coordinator.h"

namespace longhaul::coordinator {
namespace {

// The longest time between two tries to write a checkpoint.
constexpr absl::Duration kCheckpointDelayMax = absl::Minutes(1);

WriteCheckpoint OfCycle(const std::string& job, const RoundPlan& plan, int64_t cycle) {
  return {.job = job,
          .cycle = cycle,
          .step = plan.CycleStep(cycle),
          .versions = std::vector<int64_t>(plan.fragments(), cycle)};
}

// Whether the cycle ends with the job's last step, as the final checkpoint does.
bool IsLastCycle(const RoundPlan& plan, int64_t cycle) {
  return cycle > 0 && plan.CycleStep(cycle) == plan.steps();
}

}  // namespace

void Coordinator::CheckpointDue(const Job& job, int64_t version) {
  const Exchange& rounds = *job.exchange;
  if (version < 1 || version > rounds.plan().cycles()) return;
  const int64_t every = job.options.checkpoint_every_cycles;
  const bool asked = job.checkpoint_asked == version;
  if (!asked && (every <= 0 || version % every != 0)) return;
  // Those that are kept are from before.
  const bool diverges =
      job.divergence.bad() && job.options.guard.on_divergence != DivergenceAction::kNone;
  if (!asked && diverges) return;
  // Each fragment reaches `version` once. The last one completes the cycle.
  if (rounds.WholeVersion() < version) return;
  // The final checkpoint follows, and has this step.
  if (IsLastCycle(rounds.plan(), version)) return;
  out_.works.push_back(OfCycle(job.id, rounds.plan(), version));
}

// Whether a checkpoint of what is committed now can be one of this step, that of its newest push,
// for good: it is not there yet, and a later one of the same step would not differ.
bool Coordinator::IsLasting(const Job& job, int64_t step) {
  const Exchange& rounds = *job.exchange;
  if (job.checkpoint_cycle > 0 && rounds.plan().CycleStep(job.checkpoint_cycle) == step)
    return false;
  for (int p = 0; p < rounds.plan().fragments(); ++p) {
    const auto& round = rounds.fragment(p).round;
    if (round.has_value() && round->push_step() <= step) return false;
  }
  return true;
}

// Of a job that ends early or is being paused: the newest ones, if every fragment was synchronised.
// A round that is still being applied is not in it: that would have another step.
std::vector<int64_t> Coordinator::VersionsLeft(const Job& job) {
  std::vector<int64_t> versions;
  if (job.store != StoreState::kOpen || job.exchange->WholeVersion() < 1) return versions;
  for (int p = 0; p < job.exchange->plan().fragments(); ++p)
    versions.push_back(job.exchange->fragment(p).version);
  return versions;
}

bool Coordinator::PauseCheckpoint(const Job& job) {
  std::vector<int64_t> versions = VersionsLeft(job);
  if (versions.empty()) return false;
  const int64_t step = job.exchange->plan().StepOf(versions);
  if (!IsLasting(job, step)) return false;
  out_.works.push_back(
      WriteCheckpoint{.job = job.id, .step = step, .versions = std::move(versions)});
  return true;
}

void Coordinator::On(const AskCheckpoint& event) {
  if (auto refusal = JobRefusal(event.job)) return AnswerWith(*std::move(refusal));
  Job& job = *Find(event.job);
  const RoundPlan& plan = job.exchange->plan();
  if (IsPaused(job.pause)) {
    return AnswerWith(Refuse{
        .status = absl::FailedPreconditionError(
            absl::StrFormat("job %s is %s: it commits nothing until it is resumed",
                            job.options.name, JobStateName(ShownState(job.state(), job.pause)))),
        .reason = "JOB_PAUSED",
        .hint =
            "its newest checkpoint contains its last commits, if every fragment was synchronised"});
  }
  // Until the store is open, the committed versions are not known.
  if (auto refusal = OpeningRefusal(job)) return AnswerWith(*std::move(refusal));
  // One is under way, or will be. A second request must not take its place: a failure or a restart
  // would forget the first.
  if (job.checkpoint_asked > 0)
    return AnswerWith(PromiseCheckpoint{job.id, plan.CycleStep(job.checkpoint_asked)});
  const int64_t next = std::max<int64_t>(job.exchange->WholeVersion(), 0) + 1;
  if (next > plan.cycles()) return AnswerWith(PromiseCheckpoint{job.id, plan.steps()});
  job.checkpoint_asked = next;
  out_.records.push_back(StoreCheckpointRequest{job.id, next});
  AnswerWith(PromiseCheckpoint{job.id, plan.CycleStep(next)});
}

void Coordinator::ClearRequest(Job& job) {
  if (job.checkpoint_asked == 0) return;
  job.checkpoint_asked = 0;
  out_.records.push_back(StoreCheckpointRequest{job.id, 0});
}

void Coordinator::On(const CheckpointWritten& event) {
  Job* job = Find(event.job);
  if (job == nullptr) return ended_.On(event, now_, out_);
  job->checkpoint_delay = kRetryDelay;
  Unblock(*job);
  if (!job->exchange.has_value() || job->state() == JobState::kQuarantined) return;
  Touch(*job);
  if (!event.final) {
    if (event.cycle == job->checkpoint_asked) ClearRequest(*job);
    if (event.cycle == 0) PauseCheckpointEnded(*job);
    job->checkpoint_cycle = std::max(job->checkpoint_cycle, event.cycle);
    return;
  }
  LH_CHECK(job->final_checkpoint == FinalCheckpoint::kWriting, "a checkpoint that was asked for");
  job->final_checkpoint = FinalCheckpoint::kWritten;
  if (IsLastCycle(job->exchange->plan(), job->checkpoint_asked)) ClearRequest(*job);
  // A requested checkpoint may wait for disk space. The job does not end before its last try.
  for (RetriedWork& retry : job->retries) retry.at = now_;
}

// A checkpoint may have written much before it failed. So each try waits twice as long as the one
// before.
void Coordinator::BlockCheckpoint(Job& job, const std::string& what, WriteCheckpoint work) {
  Block(job, what, std::move(work), job.checkpoint_delay);
  job.checkpoint_delay = std::min(2 * job.checkpoint_delay, kCheckpointDelayMax);
}

// A job does not end without its final checkpoint, so that is tried until it succeeds. A requested
// checkpoint is tried again if that may help, but not after the final one. Any other is left out: a
// job that is being paused has everything in its log.
void Coordinator::On(const CheckpointFailed& event) {
  Job* job = Find(event.job);
  if (job == nullptr) return ended_.On(event, now_, out_);
  if (job->store != StoreState::kOpen) return;
  const RoundPlan& plan = job->exchange->plan();
  if (event.final) {
    return BlockCheckpoint(
        *job, event.fault.fault.message,
        WriteCheckpoint{.job = job->id, .step = plan.steps(), .final = true, .last = true});
  }
  if (event.cycle == 0) {
    PauseCheckpointEnded(*job);
    return Touch(*job);
  }
  if (event.cycle != job->checkpoint_asked) return;
  if (!event.fault.retry || job->final_checkpoint == FinalCheckpoint::kWritten) {
    ClearRequest(*job);
    return Touch(*job);
  }
  BlockCheckpoint(*job, event.fault.fault.message, OfCycle(job->id, plan, event.cycle));
}

void Coordinator::On(const DeleteJob& event) {
  if (const Job* job = Find(event.job); job != nullptr) {
    return AnswerWith(
        Refuse{absl::FailedPreconditionError(absl::StrFormat(
                   "job %s has not ended: it is %s; cancel it first", job->options.name,
                   JobStateName(ShownState(job->state(), job->pause)))),
               "JOB_LIVE"});
  }
  if (const Job* job = BeginsWith(event.job); job != nullptr) {
    return AnswerWith(
        Refuse{absl::FailedPreconditionError(absl::StrFormat(
                   "job %s has not started yet and will start from a checkpoint of this job",
                   job->options.name)),
               "CHECKPOINT_IN_USE"});
  }
  Delete(event, /*expired=*/false);
}

// One job in a decision, since thousands may be due when the time to keep is made shorter.
void Coordinator::On(const JobsExpired& event) {
  const auto job = std::find_if(event.jobs.begin(), event.jobs.end(), [this](const auto& ended) {
    return Find(ended.job) == nullptr && BeginsWith(ended.job) == nullptr;
  });
  if (job != event.jobs.end()) Delete(*job, /*expired=*/true);
}

// A quarantined job may continue where it was, also before its initial parameters are there.
bool Coordinator::AwaitsSeed(const Job& job) {
  return job.state() != JobState::kRunning && job.state() != JobState::kFinishing &&
         !(job.exchange.has_value() && job.exchange->Seeded());
}

const Job* Coordinator::BeginsWith(std::string_view id) const {
  for (const auto& [order, job] : in_order_)
    if (job->options.from_job == id && AwaitsSeed(*job)) return job;
  return nullptr;
}

std::set<int64_t> Coordinator::InitialSteps(std::string_view id) const {
  std::set<int64_t> steps;
  for (const auto& [order, job] : in_order_)
    if (job->options.from_job == id && AwaitsSeed(*job)) steps.insert(job->options.from_step);
  return steps;
}

std::set<std::string> Coordinator::InitialUploads() const {
  std::set<std::string> uploads;
  for (const auto& [order, job] : in_order_)
    if (!job->options.from_upload.empty() && AwaitsSeed(*job))
      uploads.insert(job->options.from_upload);
  return uploads;
}

// It is remembered how the job ended, so that pools that come late learn it.
void Coordinator::Delete(const DeleteJob& job, bool expired) {
  out_.records.push_back(StoreDeleted{job.job, job.state, expired});
  ended_.Delete(job.job, now_);
}

}  // namespace longhaul::coordinator

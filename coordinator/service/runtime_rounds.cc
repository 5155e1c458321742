// The data plane of the live jobs: rounds, snapshots and checkpoints, in other threads than the
// owner's.
#include <chrono>
#include <new>
#include <utility>

#include "absl/strings/str_cat.h"
#include "coordinator/service/messages.h"
#include "coordinator/service/runtime.h"
#include "coordinator/store/fatal.h"

namespace longhaul::coordinator {
namespace {

class Stopwatch {
 public:
  double Seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace

// At the first use, so that a job that waits for pools holds no memory.
void Runtime::OpenStore(LiveJob& job) {
  absl::StatusOr<std::unique_ptr<JobStore>> store =
      OpenJobStore(*parts_.fs, JobDir(job.id()), job.resolved());
  if (store.ok()) return job.set_store(*std::move(store));
  Note(store.status());
  owner_.PostAlways([this, id = job.id(), status = store.status()] {
    Fail(id, status, "making the job's store");
  });
}

void Runtime::Fail(const std::string& job, const absl::Status& status, absl::string_view what) {
  Step(ApplyFailed{job,
                   {.code = absl::StatusCodeToString(status.code()),
                    .message = absl::StrCat(what, ": ", status.message()),
                    .hint = "see the coordinator's log and its data folder"}});
}

void Runtime::Apply(std::shared_ptr<LiveJob> job, RoundInput round) {
  const Stopwatch since_due;
  const bool accepted = apply_->Submit([this, job, round, since_due] {
    const Stopwatch stopwatch;
    absl::StatusOr<CommitRecord> commit = job->store()->Apply(round);
    if (commit.ok()) parts_.metrics->apply_seconds.With().Observe(stopwatch.Seconds());
    Note(commit.status());
    owner_.PostAlways([this, job, round, since_due, commit = std::move(commit)]() mutable {
      const bool committed = commit.ok();
      Applied(job, std::move(round), std::move(commit));
      if (committed) parts_.metrics->commit_seconds.With().Observe(since_due.Seconds());
    });
  });
  if (!accepted) {
    RetryLater("a round", Overloaded(), [this, job, round] { Apply(job, round); });
  }
}

void Runtime::Applied(const std::shared_ptr<LiveJob>& job, RoundInput round,
                      absl::StatusOr<CommitRecord> commit) {
  if (halted_ || IsEnded(FromProto(static_cast<v1::JobState>(job->record.state)))) return;
  if (absl::IsResourceExhausted(commit.status())) {
    job->blocked = absl::StrCat("disk space at the coordinator: ", commit.status().message());
    return RetryLater(absl::StrCat("a round of job ", job->name()), commit.status(),
                      [this, job, round = std::move(round)] { Apply(job, round); });
  }
  if (!commit.ok()) return Fail(job->id(), commit.status(), "applying a round");
  job->blocked.clear();
  job->contributions().Forget(commit->fragment, commit->version);
  const RoundApplied applied{job->id(), commit->fragment, commit->version};
  job->progress.SetCommit(*std::move(commit));
  Step(applied);
  Snapshot(job);
}

void Runtime::Snapshot(const std::shared_ptr<LiveJob>& job) {
  if (job->snapshot_asked.exchange(true)) return;
  const bool accepted = background_->Submit([this, job] {
    job->snapshot_asked = false;  // What is committed from here on asks again.
    const absl::Status status = job->store()->MaybeSnapshot();
    Note(status);
    if (!status.ok())
      parts_.log->With({.job = job->name()})
          .Warning(absl::StrCat("no snapshot: ", status.message()));
  });
  if (!accepted) job->snapshot_asked = false;  // The next commit asks again.
}

v1::CheckpointManifest Runtime::ManifestFor(const LiveJob& job,
                                            const WriteCheckpoint& action) const {
  v1::CheckpointManifest manifest;
  manifest.set_job_id(job.id());
  manifest.set_job_name(job.name());
  manifest.set_step(action.step);
  manifest.set_final(action.final);
  *manifest.mutable_created_at() = ToProto(now());
  for (v1::CheckpointTensor& tensor : TensorsOf(job.resolved()))
    *manifest.add_tensors() = std::move(tensor);
  return manifest;
}

// A final checkpoint is tried until it is durable; `then` runs after it. Others are left out when
// they fail.
void Runtime::CheckpointThen(const WriteCheckpoint& action, OwnerThread::Task then) {
  std::shared_ptr<LiveJob> job = jobs_.Find(action.job);
  auto written = [this, job, action, then = std::move(then)](const absl::Status& status) mutable {
    const Logger log = parts_.log->With({.job = job->name()});
    if (halted_) return;
    if (status.ok()) {
      job->blocked.clear();
      log.Info(absl::StrCat("has a checkpoint of step ", action.step));
      if (then) std::move(then)();
    } else if (action.final) {
      job->blocked = absl::StrCat("its final checkpoint: ", status.message());
      RetryLater(absl::StrCat("the final checkpoint of job ", job->name()), status,
                 [this, action, then = std::move(then)]() mutable {
                   CheckpointThen(action, std::move(then));
                 });
    } else {
      log.Warning(absl::StrCat("no checkpoint of step ", action.step, ": ", status.message()));
    }
  };
  Executor::Task task = [this, job, manifest = ManifestFor(*job, action),
                         written = std::move(written)]() mutable {
    const absl::Status status = job->store()->WriteCheckpoint(std::move(manifest)).status();
    Note(status);
    owner_.PostAlways([status, written = std::move(written)]() mutable { written(status); });
  };
  if (!background_->Submit(std::move(task))) {
    parts_.log->Warning("no checkpoint: too much waits for the disk");
  }
}

void Runtime::SaveCounters(LiveJob& job) {
  v1::Job counters;
  const WireBytes up = job.bytes_up().Value(), down = job.bytes_down().Value();
  counters.mutable_wire_bytes()->set_up_payload(up.payload);
  counters.mutable_wire_bytes()->set_up_total(up.total);
  counters.mutable_wire_bytes()->set_down_payload(down.payload);
  counters.mutable_wire_bytes()->set_down_total(down.total);
  job.progress.Save(&counters);
  job.counters_saved = now();
  Require(parts_.meta->PutCounters(job.id(), counters.SerializeAsString()),
          "storing a job's counters");
}

}  // namespace longhaul::coordinator

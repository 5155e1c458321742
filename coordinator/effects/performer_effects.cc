// The effects of decisions: sends notices to the publisher, and begins works of the fragments.
#include <algorithm>
#include <functional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/checkpoint/initial_folder.h"
#include "coordinator/effects/performer.h"
#include "coordinator/effects/refusal.h"
#include "coordinator/store/damaged_part.h"
#include "coordinator/store/fatal.h"

namespace longhaul::coordinator {
namespace {

WorkFault WorkFaultOf(const absl::Status& status, absl::string_view what) {
  if (IsBadSeed(status)) {
    return {
        .fault = {.code = absl::StatusCodeToString(status.code()),
                  .message = std::string(status.message()),
                  .field = "init",
                  .hint =
                      "start from a folder or checkpoint with complete files and finite values"},
        .fails_job = true};
  }
  return {.retry = Passes(status),
          .fault = FaultOf(status, what,
                           "see the coordinator's log and data folder; longhaul-coordinator "
                           "--check lists damaged files")};
}

// Of the checkpoint that the work writes, without its files.
v1::CheckpointManifest ManifestOf(const LiveJob& job, const WriteCheckpoint& work, absl::Time now) {
  v1::CheckpointManifest manifest;
  manifest.set_job_id(job.id());
  manifest.set_job_name(job.name());
  manifest.set_step(work.step);
  manifest.set_final(work.final);
  manifest.set_last(work.last);
  manifest.mutable_created_at()->set_seconds(absl::ToUnixSeconds(now));
  manifest.set_longhaul_version(LONGHAUL_VERSION);
  *manifest.mutable_model() = job.resolved->spec.model();
  manifest.set_steps(job.resolved->spec.train().steps());
  manifest.set_separate_documents(job.resolved->spec.data().separate_documents());
  for (v1::CheckpointTensor& tensor : TensorsOf(*job.resolved))
    *manifest.add_tensors() = std::move(tensor);
  return manifest;
}

}  // namespace

void Performer::Tell(const RequestSeed& notice) {
  const LiveJob& job = *Find(notice.job);
  parts_.publisher->SeedRequested(job, notice);
  LogOf(job, notice.pool).Info("is asked for the initial parameters");
}

void Performer::Tell(const PublishCommit& notice) {
  LiveJob& job = *Find(notice.job);
  if (notice.round.kind != RoundKind::kSeed) job.progress.Contributed(notice.pools);
  job.history.Committed(notice.round, now());
  // The metrics are updated first, so that they contain a commit before anybody sees it.
  const CommitRecord& commit = *job.progress.commit(notice.round.fragment);
  parts_.metrics->Published(job.name(), commit, now());
  job.progress.CountLeftOut(commit.outer.left_out);
  if (notice.round.kind == RoundKind::kSkipped) job.events.Add(EventOf(notice), now());
  if (std::optional<std::string> alert = job.norms.Observe(commit); alert.has_value()) {
    v1::JobEvent event = MakeEvent(v1::NORM_ALERT, v1::WARNING, *std::move(alert));
    event.set_fragment(notice.round.fragment);
    event.set_version(notice.round.version);
    Tell(job, std::move(event), LogLevel::kWarning);
  }
  if (parts_.tracks != nullptr) parts_.tracks->Committed(job, commit, now());
  parts_.publisher->CommitPublished(job, notice);
  parts_.publisher->JobChanged(job);
  parts_.log->With({.job = job.name(), .job_id = job.id(), .round = notice.round.version})
      .Debug(absl::StrCat("fragment ", notice.round.fragment, " ", RoundKindName(notice.round.kind),
                          " from ", notice.pools.size(), " pools, digest ", commit.digest.Hex()));
}

void Performer::Tell(const CallRound& notice) {
  parts_.publisher->RoundCalled(*Find(notice.job), notice);
}

void Performer::Tell(const ReleasePool& notice) {
  parts_.publisher->PoolReleased(*Find(notice.job), notice);
}

void Performer::Tell(const PoolPresence& notice) {
  LiveJob& job = *Find(notice.job);
  Tell(job, EventOf(notice));
  parts_.publisher->JobChanged(job);
}

void Performer::Tell(const PoolFellBehind& notice) {
  LiveJob& job = *Find(notice.job);
  Tell(job, EventOf(notice), LogLevel::kWarning);
  parts_.publisher->JobChanged(job);
}

void Performer::Tell(const PoolLeftOut& notice) {
  LiveJob& job = *Find(notice.job);
  Tell(job, EventOf(notice), LogLevel::kWarning);
  parts_.publisher->JobChanged(job);
}

void Performer::Tell(const PoolSetAside& notice) {
  LiveJob& job = *Find(notice.job);
  job.events.Add(EventOf(notice), now());
  LogOf(job, notice.pool)
      .Warning(absl::StrCat("is set aside for ", absl::FormatDuration(notice.retry_after), ": ",
                            notice.fault.code, ": ", notice.fault.message));
  parts_.publisher->JobChanged(job);
}

void Performer::Tell(const EndJob& notice) {
  LiveJob& job = *Find(notice.job);
  if (notice.state == JobState::kQuarantined) {
    job.quarantine = notice.fault;
    job.events.Add(EventOf(notice), now());
  } else {
    parts_.fragments->Retire(job.id());
  }
  if (parts_.tracks != nullptr) parts_.tracks->Ended(job, now());
  parts_.publisher->JobEnded(job, notice);
  parts_.publisher->JobChanged(job);
  if (!notice.fault.has_value()) return;
  LogOf(job, notice.fault->pool)
      .Log(notice.state == JobState::kCancelled ? LogLevel::kInfo : LogLevel::kError,
           absl::StrCat("is ", JobStateName(notice.state), ": ", notice.fault->message));
}

void Performer::Tell(const LastCheckpointMissing& notice) {
  LogOf(*Find(notice.job))
      .Warning(absl::StrCat("its last checkpoint is not written yet: ", notice.why));
}

void Performer::Tell(const ForgetJob& notice) {
  if (const std::shared_ptr<LiveJob> job = Find(notice.job)) {
    SaveCounters();  // Its newest events are in memory alone.
    Hide(*job);
    jobs_.erase(notice.job);
  }
  parts_.fragments->Forget(notice.job);
}

// Adds the stored evaluations to the curves. Those that the files have already change nothing.
void Performer::TrackEvaluations(const LiveJob& job) {
  if (parts_.tracks == nullptr) return;
  for (const auto& list :
       {parts_.meta->ListEvaluations(job.id()), parts_.meta->ListPoolEvaluations(job.id()),
        parts_.meta->ListSiteEvaluations(job.id())}) {
    if (!list.ok()) return Note(list.status());
    for (const EvaluationRecord& evaluation : *list)
      parts_.tracks->Evaluated(job, evaluation, now());
  }
}

template <typename T>
Fragments::Done<T> Performer::Ended(std::function<void(absl::StatusOr<T>)> then) {
  return [this, then = std::move(then)](absl::StatusOr<T> result) {
    // Refused after the owner thread has stopped. Then nothing is decided any more.
    (void)parts_.owner->Submit(
        [then, result = std::move(result)]() mutable { then(std::move(result)); });
  };
}

void Performer::Begin(const OpenStore& work) {
  parts_.fragments->Open(
      work.job, work.create,
      Ended<StoreContents>([this, id = work.job](absl::StatusOr<StoreContents> opened) {
        if (!opened.ok())
          return Step(OpenFailed{id, WorkFaultOf(opened.status(), "opening the job's store")});
        // Null: the job was deleted meanwhile.
        const std::shared_ptr<LiveJob> job = Find(id);
        StoreOpened event{.job = id};
        absl::Time newest = absl::InfinitePast();
        for (OpenedFragment& fragment : opened->fragments) {
          RecoveredFragment& recovered = event.fragments.emplace_back();
          recovered.version = fragment.version;
          for (const ContributionKey& key : fragment.contributors)
            recovered.contributors.push_back({.pool = key.pool, .incarnation = key.incarnation});
          if (!fragment.commit.has_value()) continue;
          CommitRecord& commit = *fragment.commit;
          recovered.evaluator = commit.evaluator;
          recovered.outer = commit.outer;
          if (job == nullptr) continue;
          // An earlier version of the program did not keep the time.
          const absl::Time due = commit.due == absl::InfinitePast() ? now() : commit.due;
          newest = std::max(newest, due);
          parts_.metrics->Show(job->name(), commit);
          // A crash may have come after the commit and before its point of the curve.
          if (parts_.tracks != nullptr) parts_.tracks->Committed(*job, commit, due);
          if (commit.round.kind != RoundKind::kSeed)
            job->progress.ContributedAtNextReport(commit.pools);
          job->progress.SetCommit(std::move(commit));
        }
        if (job == nullptr) return Step(event);
        if (newest != absl::InfinitePast()) parts_.metrics->ShowLastCommit(job->name(), newest);
        TrackEvaluations(*job);
        const RecoveryReport& report = opened->recovery;
        LogOf(*job).Info(absl::StrCat(
            "its store is open: ", report.commits_replayed, " rounds applied again, ",
            report.torn_bytes_dropped, " torn bytes dropped, ", report.snapshots_rejected,
            " damaged snapshots, ", report.parts_rejected, " damaged parts"));
        Step(event);
      }));
}

void Performer::Begin(const MeasureRound& work) {
  RoundOrder order{.round = work.round};
  for (const Contributor& c : work.contributors)
    order.contributors.push_back({c.pool, c.incarnation});
  parts_.fragments->Measure(work.job, std::move(order),
                            Ended<std::vector<OuterMeasure>>(
                                [this, work](absl::StatusOr<std::vector<OuterMeasure>> measures) {
                                  if (!measures.ok()) return RoundFailed(work, measures.status());
                                  Step(RoundMeasured{work.job, work.round, *std::move(measures)});
                                }));
}

template <typename RoundWork>
void Performer::RoundFailed(const RoundWork& work, const absl::Status& why) {
  ApplyFailed failed{work.job, work.round, WorkFaultOf(why, "applying a round")};
  if (const std::optional<DamagedPart> part = DamagedPartOf(why)) {
    failed.damaged = Contributor{.pool = part->pool, .incarnation = part->incarnation};
    TellDamaged(work.job, *part, why);
  }
  Step(failed);
}

void Performer::Begin(const ApplyRound& work) {
  RoundOrder order{
      .round = work.round, .evaluator = work.evaluator, .due = now(), .outer = work.outer};
  for (const Contributor& c : work.contributors)
    order.contributors.push_back({c.pool, c.incarnation});
  const absl::Time due = order.due;
  parts_.fragments->Apply(
      work.job, std::move(order),
      Ended<CommitRecord>([this, work, due](absl::StatusOr<CommitRecord> commit) {
        if (!commit.ok()) return RoundFailed(work, commit.status());
        if (const std::shared_ptr<LiveJob> job = Find(work.job))
          job->progress.SetCommit(*std::move(commit));
        Step(RoundApplied{work.job, work.round});
        parts_.metrics->commit_seconds.With().Observe(absl::ToDoubleSeconds(now() - due));
      }));
}

void Performer::TellDamaged(const std::string& id, const DamagedPart& part,
                            const absl::Status& status) {
  const std::shared_ptr<LiveJob> job = Find(id);
  if (job == nullptr) return;
  v1::JobEvent event = MakeEvent(v1::POOL_LOST, v1::ERROR,
                                 absl::StrCat("its contribution is damaged on the coordinator's "
                                              "disk and does not count; its ranks restart: ",
                                              status.message()));
  event.set_pool(part.pool);
  event.set_fragment(part.round.fragment);
  event.set_version(part.round.version);
  Tell(*job, std::move(event), LogLevel::kError);
  parts_.publisher->JobChanged(*job);
}

void Performer::Begin(const WriteCheckpoint& work) {
  const LiveJob& job = *Find(work.job);
  parts_.fragments->Checkpoint(
      work.job, ManifestOf(job, work, now()), work.versions,
      Ended<v1::CheckpointManifest>([this, work](absl::StatusOr<v1::CheckpointManifest> written) {
        // Null: the job was deleted meanwhile.
        if (const std::shared_ptr<LiveJob> job = Find(work.job))
          TellCheckpoint(*job, work.step, written.status());
        if (!written.ok()) {
          return Step(CheckpointFailed{work.job, work.final,
                                       WorkFaultOf(written.status(), "writing a checkpoint"),
                                       work.cycle, work.last});
        }
        Step(CheckpointWritten{work.job, work.final, work.cycle, work.last});
      }));
}

void Performer::TellCheckpoint(LiveJob& job, int64_t step, const absl::Status& written) {
  v1::JobEvent event =
      written.ok()
          ? MakeEvent(v1::CHECKPOINT_WRITTEN, v1::INFO,
                      absl::StrCat("has a checkpoint of step ", step))
          : MakeEvent(v1::CHECKPOINT_FAILED, v1::WARNING,
                      absl::StrCat("no checkpoint of step ", step, ": ", written.message()));
  event.set_step(step);
  if (!written.ok()) event.set_code(absl::StatusCodeToString(written.code()));
  // One that waits for the disk fails again and again.
  const std::string trouble = written.ok() ? "" : event.message();
  if (std::exchange(job.checkpoint_trouble, trouble) == trouble && !written.ok()) return;
  Tell(job, std::move(event), written.ok() ? LogLevel::kInfo : LogLevel::kWarning);
  parts_.publisher->JobChanged(job);
}

void Performer::Begin(const CloseStore& work) {
  if (const std::shared_ptr<LiveJob> job = Find(work.job)) {
    if (IsEnded(job->record.state)) Hide(*job);
    parts_.metrics->last_commit.RemoveWhere(kJobLabel, job->name());
    if (parts_.tracks != nullptr) parts_.tracks->Ended(*job, now());
  }
  parts_.fragments->Close(work.job, [this, alive = std::weak_ptr(alive_), id = work.job] {
    if (!alive.expired()) (void)parts_.owner->Submit([this, id] { Step(StoreClosed{id}); });
  });
}

void Performer::Begin(const RemoveLog& work) {
  parts_.fragments->DropLog(
      work.job, Ended<bool>([this, id = work.job](absl::StatusOr<bool> removed) {
        if (removed.ok() && *removed) return Step(LogRemoved{id});
        if (removed.ok()) return Step(LogNeeded{id, FindEnded(id)});
        const bool damaged = absl::IsDataLoss(removed.status());
        if (damaged) {
          parts_.log->With({.job_id = id})
              .Error(absl::StrCat("its log is kept, since its last checkpoint is damaged: ",
                                  removed.status().message()));
        }
        Step(LogRemovalFailed{id, /*retry=*/!damaged});
      }));
}

std::optional<JobOptions> Performer::FindEnded(const std::string& id) {
  if (const std::shared_ptr<LiveJob> job = Find(id))
    return job->resolved.has_value() ? std::optional(JobOptionsOf(*job->resolved)) : std::nullopt;
  absl::StatusOr<JobRecord> record = parts_.meta->GetJob(id);
  v1::JobSpec spec;
  if (!record.ok() || !spec.ParseFromString(record->spec)) return std::nullopt;
  absl::StatusOr<ResolvedJob> resolved = ResolveJobSpec(spec);
  if (!resolved.ok()) return std::nullopt;
  const JobOptions options = JobOptionsOf(*resolved);
  const absl::StatusOr<std::shared_ptr<LiveJob>> job =
      MakeLiveJob(*std::move(record), *std::move(resolved));
  if (!job.ok()) return std::nullopt;
  const absl::StatusOr<std::vector<std::string>> events = parts_.meta->ListEvents(id);
  if (events.ok()) (*job)->events.Restore(*events);
  parts_.fragments->Add((*job)->fragments);
  jobs_[id] = *job;
  return options;
}

void Performer::Begin(const RemoveFiles& work) {
  parts_.fragments->Remove(work.job, [this, id = work.job](absl::Status removed) {
    (void)parts_.owner->Submit([this, id, removed] {
      if (removed.ok()) return Step(FilesRemoved{id});
      parts_.log->Warning(absl::StrCat("the files of deleted job ", id,
                                       " cannot be removed yet: ", removed.message()));
      Step(RemoveFailed{id});
    });
  });
}

}  // namespace longhaul::coordinator

#include "coordinator/fragments/fragments.h"

#include <optional>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/clock.h"
#include "common/base/status_macros.h"
#include "coordinator/store/damaged_part.h"
#include "coordinator/store/data_folder.h"
#include "coordinator/store/fatal.h"
#include "coordinator/store/job_log_removal.h"

namespace longhaul::coordinator {
namespace {

absl::Status NoJob(const std::string& job) {
  return absl::NotFoundError(absl::StrCat("job ", job, " is not here"));
}

// Runs `work` on the runner and gives its result to `done`. UNAVAILABLE: the runner is full.
template <typename Result, typename Work>
void RunThen(TaskRunner& runner, absl::AnyInvocable<void(Result)> done, Work work) {
  // Shared, since Submit destroys a task that it refuses, with everything that the task holds.
  auto shared = std::make_shared<absl::AnyInvocable<void(Result)>>(std::move(done));
  const bool accepted =
      runner.Submit([shared, work = std::move(work)]() mutable { (*shared)(work()); });
  if (!accepted) (*shared)(absl::UnavailableError("too many tasks wait for the disk"));
}

}  // namespace

Fragments::Fragments(Options options, const Parts& parts)
    : options_(std::move(options)), parts_(parts) {}

void Fragments::Add(std::shared_ptr<JobFragments> job) {
  absl::MutexLock lock(&mutex_);
  const std::string id = job->id();
  jobs_[id] = std::move(job);
}

void Fragments::Close(const std::string& id, absl::AnyInvocable<void()> done) {
  const std::shared_ptr<JobFragments> job = Find(id);
  const std::shared_ptr<SharedStore> store = job ? job->set_store(nullptr) : nullptr;
  if (store == nullptr) return done();
  store->Close(std::move(done));
}

void Fragments::Forget(const std::string& id) {
  absl::MutexLock lock(&mutex_);
  const auto found = jobs_.find(id);
  if (found == jobs_.end()) return;
  found->second->Hide();
  jobs_.erase(found);
}

void Fragments::Retire(const std::string& id) {
  const std::shared_ptr<JobFragments> job = Find(id);
  const std::shared_ptr<SharedStore> store = job ? job->store() : nullptr;
  if (store == nullptr) return;
  job->set_full(JobFragments::Storing::kLastCheckpoint, "");
  // If the task is refused or fails, the space stays in use until the next start.
  (void)parts_.background->Submit([this, job, store] { Note(*job, (*store)->Retire()); });
}

absl::Status Fragments::Health() const {
  absl::MutexLock lock(&mutex_);
  for (const auto& [id, job] : jobs_) {
    if (const std::string full = job->full(); !full.empty())
      return absl::ResourceExhaustedError(full);
  }
  return absl::OkStatus();
}

std::shared_ptr<JobFragments> Fragments::Find(absl::string_view job) const {
  absl::MutexLock lock(&mutex_);
  const auto found = jobs_.find(job);
  return found == jobs_.end() ? nullptr : found->second;
}

std::string Fragments::JobDir(absl::string_view job) const {
  return JobFolder(options_.data_dir, std::string(job));
}

void Fragments::Note(JobFragments& job, const absl::Status& status) {
  if (IsFatal(status) && job.TellFailure()) parts_.arbiter->ReportStoreFailure(job.id(), status);
}

absl::StatusOr<StoreContents> Fragments::OpenNow(JobFragments& job, bool create) {
  const std::string dir = JobDir(job.id());
  const int threads = options_.tile_threads > 0 ? options_.tile_threads : TileThreads();
  absl::StatusOr<std::unique_ptr<JobStore>> store = JobStore::Recover(parts_.fs, dir, threads);
  if (absl::IsNotFound(store.status()) && create) {
    JobManifest manifest = job.manifest();
    std::random_device random;
    manifest.options.log_salt = (uint64_t{random()} << 32) | random();
    store = JobStore::Create(parts_.fs, dir, manifest, threads);
  }
  LH_RETURN_IF_ERROR(store.status());
  if ((*store)->options().fragment_elements != job.manifest().options.fragment_elements) {
    return absl::DataLossError(absl::StrCat(dir, " holds fragments of other sizes than the job's"));
  }
  const auto shared = std::make_shared<SharedStore>(*std::move(store));
  StoreContents contents{.recovery = (*shared)->recovery()};
  for (int f = 0; f < job.count(); ++f) {
    OpenedFragment& fragment = contents.fragments.emplace_back();
    LH_ASSIGN_OR_RETURN(fragment.version, (*shared)->Version(f));
    if (fragment.version >= 0) {
      LH_ASSIGN_OR_RETURN(fragment.commit, (*shared)->LastCommit(f));
      LH_RETURN_IF_ERROR(CheckFinite(*fragment.commit));
    }
    fragment.contributors = shared->contributions().WholeOf(f, fragment.version + 1);
  }
  job.set_store(shared);
  return contents;
}

void Fragments::Open(const std::string& id, bool create, Done<StoreContents> done) {
  const std::shared_ptr<JobFragments> job = Find(id);
  if (!job) return done(NoJob(id));
  RunThen(*parts_.opening, std::move(done), [this, job, create] {
    absl::StatusOr<StoreContents> opened = OpenNow(*job, create);
    if (opened.ok() || Passes(opened.status()))
      job->set_full(JobFragments::Storing::kOpening, opened.status().message());
    Note(*job, opened.status());
    return opened;
  });
}

absl::Status Fragments::Withdraw(SharedStore& store, const absl::Status& failed) {
  const std::optional<DamagedPart> part = DamagedPartOf(failed);
  if (!part.has_value()) return failed;
  store.contributions().Withdraw({part->round, part->pool, part->incarnation}, part->sequence);
  // The next attempt reads them from the checkpoint again.
  return part->pool == kCheckpointPool ? absl::UnavailableError(failed.message()) : failed;
}

RoundInput Fragments::InputOf(SharedStore& store, const RoundOrder& order) {
  RoundInput input{
      .round = order.round, .evaluator = order.evaluator, .due = order.due, .outer = order.outer};
  for (const RoundOrder::Contributor& c : order.contributors) {
    const ContributionKey key{order.round, c.pool, c.incarnation};
    Contribution& contribution = input.contributions.emplace_back(
        Contribution{.pool = c.pool, .parts = store.contributions().Parts(key)});
    for (size_t i = 0; i < contribution.parts.size(); ++i) {
      const double weight = contribution.parts[i].info.weight;
      contribution.weight = i == 0 ? weight : std::min(contribution.weight, weight);
    }
  }
  return input;
}

absl::StatusOr<std::vector<OuterMeasure>> Fragments::MeasureNow(
    const std::shared_ptr<SharedStore>& store, const RoundOrder& order) {
  absl::StatusOr<std::vector<OuterMeasure>> measures = (*store)->Measure(InputOf(*store, order));
  if (!measures.ok()) return Withdraw(*store, measures.status());
  return measures;
}

void Fragments::Measure(const std::string& id, RoundOrder order,
                        Done<std::vector<OuterMeasure>> done) {
  const std::shared_ptr<JobFragments> job = Find(id);
  const std::shared_ptr<SharedStore> store = job ? job->store() : nullptr;
  if (store == nullptr) return done(NoJob(job ? job->name() : id));
  RunThen(*parts_.apply, std::move(done), [this, job, store, order = std::move(order)] {
    absl::StatusOr<std::vector<OuterMeasure>> measures = MeasureNow(store, order);
    Note(*job, measures.status());
    return measures;
  });
}

absl::StatusOr<CommitRecord> Fragments::ApplyNow(const std::shared_ptr<JobFragments>& job,
                                                 const std::shared_ptr<SharedStore>& store,
                                                 const RoundOrder& order) {
  const absl::Time begun = SteadyTime();
  RoundOrder whole = order;
  if (order.round.kind == RoundKind::kSeed && order.contributors.empty()) {
    LH_RETURN_IF_ERROR(LogSeed(job, store, order.round.fragment));
    whole.contributors.push_back({kCheckpointPool, kCheckpointPool});
  }
  absl::StatusOr<CommitRecord> commit = (*store)->Apply(InputOf(*store, whole));
  if (!commit.ok()) return Withdraw(*store, commit.status());
  parts_.metrics->apply_seconds.With().Observe(absl::ToDoubleSeconds(SteadyTime() - begun));
  store->contributions().Forget(order.round);
  SnapshotLater(job, store);
  return commit;
}

void Fragments::Apply(const std::string& id, RoundOrder order, Done<CommitRecord> done) {
  const std::shared_ptr<JobFragments> job = Find(id);
  const std::shared_ptr<SharedStore> store = job ? job->store() : nullptr;
  if (store == nullptr) return done(NoJob(job ? job->name() : id));
  RunThen(*parts_.apply, std::move(done), [this, job, store, order = std::move(order)] {
    absl::StatusOr<CommitRecord> commit = ApplyNow(job, store, order);
    if (commit.ok() || Passes(commit.status()))
      job->set_full(JobFragments::Storing::kRound, commit.status().message());
    Note(*job, commit.status());
    return commit;
  });
}

void Fragments::SnapshotLater(const std::shared_ptr<JobFragments>& job,
                              const std::shared_ptr<SharedStore>& store) {
  if (store->snapshot_asked.exchange(true)) return;
  TaskRunner* const runner = parts_.snapshots == nullptr ? parts_.background : parts_.snapshots;
  const bool accepted = runner->Submit([this, job, store] {
    // Commits from here on ask again.
    store->snapshot_asked = false;
    const absl::Status status = (*store)->MaybeSnapshot();
    Note(*job, status);
    if (!status.ok()) {
      parts_.log->With({.job = job->name(), .job_id = job->id()})
          .Warning(absl::StrCat("no snapshot: ", status.message()));
    }
  });
  // The next commit asks again.
  if (!accepted) store->snapshot_asked = false;
}

void Fragments::Checkpoint(const std::string& id, v1::CheckpointManifest manifest,
                           std::vector<int64_t> versions, Done<v1::CheckpointManifest> done) {
  const std::shared_ptr<JobFragments> job = Find(id);
  const std::shared_ptr<SharedStore> store = job ? job->store() : nullptr;
  if (store == nullptr) return done(NoJob(job ? job->name() : id));
  RunThen(
      *parts_.background, std::move(done),
      [this, job, store, versions = std::move(versions), manifest = std::move(manifest)]() mutable {
        const bool last = manifest.last();
        absl::StatusOr<v1::CheckpointManifest> written = (*store)->WriteCheckpoint(
            std::move(manifest), versions, [this, job] { return InUse(job->id()); });
        if (last && (written.ok() || Passes(written.status())))
          job->set_full(JobFragments::Storing::kLastCheckpoint, written.status().message());
        Note(*job, written.status());
        return written;
      });
}

void Fragments::NoteState(const std::string& job, JobStateNote note) {
  {
    absl::MutexLock lock(&mutex_);
    notes_[job] = std::move(note);
  }
  const bool accepted = parts_.background->Submit([this, job] {
    absl::MutexLock writing(&note_mutex_);
    std::optional<JobStateNote> newest;
    {
      absl::MutexLock lock(&mutex_);
      const auto found = notes_.find(job);
      // The task before this one wrote it.
      if (found == notes_.end()) return;
      newest = std::move(found->second);
      notes_.erase(found);
    }
    const absl::Status written = WriteJobState(*parts_.fs, JobDir(job), *newest);
    if (written.ok()) return;
    parts_.log->With({.job_id = job})
        .Warning(absl::StrCat("its state is not noted in its folder: ", written.message()));
  });
  if (accepted) return;
  absl::MutexLock lock(&mutex_);
  notes_.erase(job);
}

void Fragments::Remove(const std::string& job, absl::AnyInvocable<void(absl::Status)> done) {
  RunThen(*parts_.background, std::move(done),
          [this, dir = JobDir(job)] { return RemoveJobStore(*parts_.fs, dir); });
}

void Fragments::DropLog(const std::string& job, Done<bool> done) {
  RunThen(*parts_.background, std::move(done),
          [this, dir = JobDir(job)] { return RemoveJobLog(*parts_.fs, dir); });
}

std::shared_ptr<const void> Fragments::HoldCheckpoint(const std::string& job, int64_t step) {
  return holds_.Hold(job, step);
}

std::set<int64_t> Fragments::InUse(const std::string& job) {
  std::set<int64_t> steps = parts_.arbiter->InitialSteps(job);
  steps.merge(holds_.Held(job));
  return steps;
}

}  // namespace longhaul::coordinator

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

absl::Status StillHeld() { return absl::UnavailableError("its last works have not ended"); }

// Runs `work` on the runner and gives its result to `done`. UNAVAILABLE: the runner is full.
template <typename Result, typename Work>
void RunThen(TaskRunner& runner, absl::AnyInvocable<void(Result)> done, Work work) {
  // Shared, since Submit destroys a task that it refuses, with everything that the task holds.
  auto shared = std::make_shared<absl::AnyInvocable<void(Result)>>(std::move(done));
  const bool accepted =
      runner.Submit([shared, work = std::make_optional(std::move(work))]() mutable {
        Result result = (*work)();
        // Whoever hears that the work has ended finds nothing held by it any more.
        work.reset();
        (*shared)(std::move(result));
      });
  if (!accepted) (*shared)(absl::UnavailableError("too many tasks wait for the disk"));
}

// Adds the contributions to uncommitted rounds that the log holds.
void RecoverContributions(JobStore& store, Contributions& contributions) {
  for (StoredPart& part : store.TakePending()) {
    const PartInfo& info = part.info;
    const ContributionKey key{info.fragment, info.version, info.pool, info.incarnation};
    const std::vector<BlockRange> blocks = contributions.Reserve(key, BlocksOf(info.segments));
    contributions.Confirm(key, blocks, std::move(part));
  }
}

}  // namespace

Fragments::Fragments(Options options, const Parts& parts)
    : options_(std::move(options)), parts_(parts) {}

void Fragments::Add(std::shared_ptr<JobFragments> job) {
  absl::MutexLock lock(&mutex_);
  const std::string id = job->id();
  jobs_[id] = std::move(job);
}

void Fragments::Close(const std::string& id) {
  absl::MutexLock lock(&mutex_);
  const auto found = jobs_.find(id);
  if (found == jobs_.end()) return;
  found->second->Close();
  closed_.emplace(id, found->second);
  jobs_.erase(found);
}

void Fragments::Reset(const std::string& id) {
  const std::shared_ptr<JobFragments> job = Find(id);
  if (!job) return;
  job->Close();
  std::shared_ptr<JobFragments> closed = job->WithoutStore();
  absl::MutexLock lock(&mutex_);
  closed_.emplace(id, job);
  jobs_[id] = std::move(closed);
}

bool Fragments::IsHeld(const std::string& job) {
  std::erase_if(closed_, [](const auto& entry) { return entry.second.expired(); });
  return closed_.contains(job);
}

void Fragments::Retire(const std::string& id) {
  const std::shared_ptr<JobFragments> job = Find(id);
  if (!job || job->store() == nullptr) return;
  // If the task is refused or fails, the space stays in use until the next start.
  (void)parts_.background->Submit([this, job] { Note(*job, job->store()->Retire()); });
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
  if (IsFatal(status) && job.TellFailure()) parts_.arbiter->StoreFailed(job.id(), status);
}

absl::StatusOr<OpenedStore> Fragments::OpenNow(JobFragments& job, bool create) {
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
  RecoverContributions(**store, job.contributions());
  OpenedStore opened{.recovery = (*store)->recovery()};
  for (int f = 0; f < job.count(); ++f) {
    OpenedFragment& fragment = opened.fragments.emplace_back();
    LH_ASSIGN_OR_RETURN(fragment.version, (*store)->Version(f));
    if (fragment.version >= 0) {
      LH_ASSIGN_OR_RETURN(fragment.commit, (*store)->LastCommit(f));
      LH_RETURN_IF_ERROR(CheckFinite(*fragment.commit));
    }
    fragment.contributors = job.contributions().WholeOf(f, fragment.version + 1);
  }
  job.set_store(*std::move(store));
  return opened;
}

void Fragments::Open(const std::string& id, bool create, Done<OpenedStore> done) {
  const std::shared_ptr<JobFragments> job = Find(id);
  if (!job) return done(NoJob(id));
  {
    absl::MutexLock lock(&mutex_);
    // Two stores of one folder would write the same files.
    if (IsHeld(id)) return done(StillHeld());
  }
  RunThen(*parts_.opening, std::move(done), [this, job, create] {
    absl::StatusOr<OpenedStore> opened = OpenNow(*job, create);
    Note(*job, opened.status());
    return opened;
  });
}

absl::Status Fragments::Withdraw(JobFragments& job, const absl::Status& failed) {
  const std::optional<DamagedPart> part = DamagedPartOf(failed);
  if (!part.has_value()) return failed;
  job.contributions().Withdraw({part->fragment, part->version, part->pool, part->incarnation},
                               part->sequence);
  // The next attempt reads them from the checkpoint again.
  return part->pool == kCheckpointPool ? absl::UnavailableError(failed.message()) : failed;
}

absl::StatusOr<CommitRecord> Fragments::ApplyNow(const std::shared_ptr<JobFragments>& job,
                                                 const Round& round) {
  const absl::Time begun = SteadyTime();
  RoundInput input{.fragment = round.fragment,
                   .version = round.version,
                   .kind = round.kind,
                   .evaluator = round.evaluator,
                   .due = round.due};
  std::vector<Round::Contributor> contributors = round.contributors;
  if (round.kind == RoundKind::kSeed && contributors.empty()) {
    LH_RETURN_IF_ERROR(LogSeed(job, round.fragment));
    contributors.push_back({kCheckpointPool, kCheckpointPool});
  }
  for (const Round::Contributor& c : contributors) {
    const ContributionKey key{round.fragment, round.version, c.pool, c.incarnation};
    Contribution& contribution = input.contributions.emplace_back(
        Contribution{.pool = c.pool, .parts = job->contributions().Parts(key)});
    for (size_t i = 0; i < contribution.parts.size(); ++i) {
      const double weight = contribution.parts[i].info.weight;
      contribution.weight = i == 0 ? weight : std::min(contribution.weight, weight);
    }
  }
  absl::StatusOr<CommitRecord> commit = job->store()->Apply(input);
  if (!commit.ok()) return Withdraw(*job, commit.status());
  parts_.metrics->apply_seconds.With().Observe(absl::ToDoubleSeconds(SteadyTime() - begun));
  job->contributions().Forget(round.fragment, round.version);
  SnapshotLater(job);
  return commit;
}

void Fragments::Apply(const std::string& id, Round round, Done<CommitRecord> done) {
  const std::shared_ptr<JobFragments> job = Find(id);
  if (!job || job->store() == nullptr) return done(NoJob(job ? job->name() : id));
  RunThen(*parts_.apply, std::move(done), [this, job, round = std::move(round)] {
    absl::StatusOr<CommitRecord> commit = ApplyNow(job, round);
    if (commit.ok() || Passes(commit.status()))
      job->set_full(JobFragments::Storing::kRound, commit.status().message());
    Note(*job, commit.status());
    return commit;
  });
}

void Fragments::SnapshotLater(const std::shared_ptr<JobFragments>& job) {
  if (job->snapshot_asked.exchange(true)) return;
  const bool accepted = parts_.background->Submit([this, job] {
    // Commits from here on ask again.
    job->snapshot_asked = false;
    const absl::Status status = job->store()->MaybeSnapshot();
    Note(*job, status);
    if (!status.ok()) {
      parts_.log->With({.job = job->name(), .job_id = job->id()})
          .Warning(absl::StrCat("no snapshot: ", status.message()));
    }
  });
  // The next commit asks again.
  if (!accepted) job->snapshot_asked = false;
}

void Fragments::Checkpoint(const std::string& id, v1::CheckpointManifest manifest,
                           std::vector<int64_t> versions, Done<v1::CheckpointManifest> done) {
  const std::shared_ptr<JobFragments> job = Find(id);
  if (!job || job->store() == nullptr) return done(NoJob(job ? job->name() : id));
  RunThen(*parts_.background, std::move(done),
          [this, job, versions = std::move(versions), manifest = std::move(manifest)]() mutable {
            absl::StatusOr<v1::CheckpointManifest> written = job->store()->WriteCheckpoint(
                std::move(manifest), versions, [this, job] { return Pinned(job->id()); });
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

std::shared_ptr<const void> Fragments::Hold(const std::string& job) {
  absl::MutexLock lock(&mutex_);
  if (IsHeld(job) || jobs_.contains(job)) return nullptr;
  const auto holder = std::make_shared<const int>();
  closed_.emplace(job, holder);
  return holder;
}

void Fragments::Remove(const std::string& job, absl::AnyInvocable<void(absl::Status)> done) {
  const std::shared_ptr<const void> held = Hold(job);
  if (held == nullptr) return done(StillHeld());
  RunThen(*parts_.background, std::move(done),
          [this, held, dir = JobDir(job)] { return RemoveJobStore(*parts_.fs, dir); });
}

void Fragments::RemoveLog(const std::string& job, Done<bool> done) {
  const std::shared_ptr<const void> held = Hold(job);
  if (held == nullptr) return done(StillHeld());
  RunThen(*parts_.background, std::move(done),
          [this, held, dir = JobDir(job)] { return RemoveJobLog(*parts_.fs, dir); });
}

void Fragments::Pin(const std::string& job, int64_t step) {
  absl::MutexLock lock(&mutex_);
  pinned_[job].insert(step);
}

void Fragments::Unpin(const std::string& job, int64_t step) {
  absl::MutexLock lock(&mutex_);
  const auto found = pinned_.find(job);
  if (found == pinned_.end()) return;
  if (const auto pin = found->second.find(step); pin != found->second.end())
    found->second.erase(pin);
  if (found->second.empty()) pinned_.erase(found);
}

std::set<int64_t> Fragments::Pinned(const std::string& job) const {
  absl::MutexLock lock(&mutex_);
  const auto found = pinned_.find(job);
  if (found == pinned_.end()) return {};
  return {found->second.begin(), found->second.end()};
}

}  // namespace longhaul::coordinator

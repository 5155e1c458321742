#include "coordinator/store/data_folder.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/base/status_macros.h"
#include "coordinator/store/job_folder.h"
#include "coordinator/store/job_log_removal.h"
#include "coordinator/store/job_manifest.h"
#include "coordinator/store/job_state_file.h"
#include "coordinator/store/replay.h"
#include "coordinator/store/snapshot.h"
#include "longhaul/v1/job.pb.h"

namespace longhaul {
namespace {

bool HasStore(JobState state) {
  return state == JobState::kRunning || state == JobState::kFinishing ||
         state == JobState::kCompleted || state == JobState::kQuarantined;
}

std::string LostReason() {
  v1::Job status;
  status.mutable_error()->set_code("CANCELLED");
  status.mutable_error()->set_message(
      "the job failed or was cancelled; the reason was lost with the database");
  return status.SerializeAsString();
}

// All that is still known of a job that has ended, without a note of it, is the checkpoint that it
// ended with.
void MakeEnded(const v1::CheckpointManifest& last, JobRecord& job) {
  v1::Job status;
  if (!last.final()) status.ParseFromString(LostReason());
  status.set_inner_step(last.step());
  status.set_parameters(last.parameters());
  job.status = status.SerializeAsString();
  job.state = last.final() ? JobState::kCompleted : JobState::kCancelled;
  job.ended = absl::FromUnixSeconds(last.created_at().seconds());
}

// Whether every fragment has its initial parameters. Reads the log if there is not a snapshot of
// each. A store that cannot be opened is not judged here: opening it says what is wrong.
bool IsSeeded(FileSystem& fs, const std::string& dir, const JobStoreOptions& options) {
  std::set<int> seeded;
  if (const absl::StatusOr<SnapshotList> list = ListSnapshots(fs, SnapshotFolder(dir)); list.ok())
    for (const SnapshotFile& file : list->files) seeded.insert(file.fragment);
  const auto all = [&] { return seeded.size() >= options.fragment_elements.size(); };
  if (all()) return true;
  const absl::StatusOr<std::vector<CommitRecord>> commits =
      LoggedCommits(fs, dir, /*leave_out_parts=*/true);
  if (!commits.ok()) return true;
  for (const CommitRecord& commit : *commits) seeded.insert(commit.round.fragment);
  return all();
}

// A job as its folder says that it was.
struct FoundJob {
  JobRecord record;
  std::optional<PauseRecord> pause;
  bool deleted = false;
};

// Or the reason why the job cannot be adopted.
absl::StatusOr<FoundJob> JobIn(FileSystem& fs, const std::string& data_dir,
                               const std::string& folder) {
  const std::string dir = JobFolder(data_dir, folder);
  LH_ASSIGN_OR_RETURN(const JobManifest manifest, ReadJobManifest(fs, dir));
  if (manifest.id != folder) {
    return absl::DataLossError(absl::StrCat(dir, ": its manifest is that of job ", manifest.id,
                                            ", which has another folder"));
  }
  LH_ASSIGN_OR_RETURN(const JobStateNote note, ReadJobState(fs, dir));
  FoundJob found{.deleted = note.deleted};
  JobRecord& job = found.record;
  job.id = manifest.id;
  job.name = manifest.name;
  job.idempotency_token = manifest.idempotency_token;
  job.state = JobState::kRunning;
  job.spec = manifest.spec;
  job.created = job.started = manifest.created;
  job.owner = manifest.owner;
  if (found.deleted) {
    // Its files may be gone in part.
    job.idempotency_token.clear();
    return found;
  }
  LH_ASSIGN_OR_RETURN(const bool log_removed, IsLogRemoved(fs, dir));
  if (log_removed) {
    LH_ASSIGN_OR_RETURN(const std::optional<v1::CheckpointManifest> last,
                        ReadLastCheckpoint(fs, dir));
    MakeEnded(*last, job);
  }
  if (IsEnded(note.state)) {
    job.state = note.state;
    job.ended = note.at;
    if (!note.report.empty()) job.status = note.report;
    if (job.status.empty() && job.state != JobState::kCompleted) job.status = LostReason();
  } else if (!log_removed && !IsSeeded(fs, dir, manifest.options)) {
    job.state = JobState::kSeeding;
  }
  if (note.state == JobState::kPaused && !log_removed) {
    // Without a report it is paused again, which makes one.
    const PauseStage stage = note.report.empty() ? PauseStage::kPausing : PauseStage::kPaused;
    found.pause = PauseRecord{job.id, stage, note.at, note.by, note.reason, note.report};
  }
  return found;
}

std::vector<MetaRecord> RecordsOf(const FoundJob& found) {
  std::vector<MetaRecord> records = {NewJob{found.record}};
  if (found.pause.has_value()) records.push_back(*found.pause);
  // The next start removes the rest of its files.
  if (found.deleted) records.push_back(DeletedJob{found.record.id, absl::Now()});
  return records;
}

}  // namespace

absl::StatusOr<FolderFindings> CompareFolders(FileSystem& fs, const std::string& data_dir,
                                              MetaStore& meta) {
  LH_ASSIGN_OR_RETURN(const std::vector<std::string> names, ListIfThere(fs, JobsFolder(data_dir)));
  std::set<std::string> folders(names.begin(), names.end());
  FolderFindings findings;
  LH_ASSIGN_OR_RETURN(findings.jobs, meta.ListKeys());
  for (const JobKey& key : findings.jobs) {
    const bool found = folders.erase(key.id) > 0;
    if (!found && HasStore(key.state)) findings.missing_folders.push_back(key);
  }
  LH_ASSIGN_OR_RETURN(const std::vector<std::string> unremoved, meta.ListUnremoved());
  for (const std::string& id : unremoved) folders.erase(id);
  for (const std::string& name : folders) {
    if (!absl::EndsWith(name, ".tmp")) findings.unknown_folders.push_back(name);
  }
  return findings;
}

absl::StatusOr<Adoption> AdoptJobs(FileSystem& fs, const std::string& data_dir, MetaStore& meta) {
  LH_ASSIGN_OR_RETURN(const FolderFindings findings, CompareFolders(fs, data_dir, meta));
  Adoption adoption;
  std::vector<FoundJob> found;
  for (const std::string& folder : findings.unknown_folders) {
    absl::StatusOr<FoundJob> job = JobIn(fs, data_dir, folder);
    if (job.ok()) {
      found.push_back(*std::move(job));
    } else {
      adoption.left_alone.push_back(
          absl::StrCat(JobFolder(data_dir, folder), ": ", job.status().message()));
    }
  }
  // The name of a deleted job may be that of a later one.
  std::stable_sort(found.begin(), found.end(), [](const FoundJob& a, const FoundJob& b) {
    if (a.deleted != b.deleted) return a.deleted;
    return a.record.created < b.record.created;
  });
  for (const FoundJob& job : found) {
    const absl::Status committed = meta.Commit(RecordsOf(job));
    if (absl::IsAlreadyExists(committed)) {
      adoption.left_alone.push_back(
          absl::StrCat(JobFolder(data_dir, job.record.id), ": the id, the token or the name \"",
                       job.record.name, "\" is that of another job: ", committed.message()));
      continue;
    }
    LH_RETURN_IF_ERROR(committed);
    if (job.deleted) {
      adoption.left_alone.push_back(absl::StrCat(JobFolder(data_dir, job.record.id),
                                                 ": the job was deleted; the rest of its files is "
                                                 "removed"));
      continue;
    }
    LH_ASSIGN_OR_RETURN(JobRecord adopted, meta.GetJob(job.record.id));
    adoption.adopted.push_back(std::move(adopted));
  }
  return adoption;
}

}  // namespace longhaul

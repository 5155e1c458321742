#include "coordinator/store/data_folder.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "coordinator/store/job_log_removal.h"
#include "coordinator/store/job_manifest.h"
#include "longhaul/v1/job.pb.h"

namespace longhaul {
namespace {

bool HasStore(JobState state) {
  return state == JobState::kRunning || state == JobState::kFinishing ||
         state == JobState::kCompleted || state == JobState::kQuarantined;
}

// All that is still known of a job that has ended is the checkpoint that it ended with.
void MakeEnded(const v1::CheckpointManifest& last, JobRecord& job) {
  v1::Job status;
  status.set_inner_step(last.step());
  status.set_parameters(last.parameters());
  if (!last.final()) {
    status.mutable_error()->set_code("CANCELLED");
    status.mutable_error()->set_message(
        "the job failed or was cancelled; the reason was lost with the database");
  }
  job.status = status.SerializeAsString();
  job.state = last.final() ? JobState::kCompleted : JobState::kCancelled;
  job.ended = absl::FromUnixSeconds(last.created_at().seconds());
}

// The record of the job in a folder, or the reason why the job cannot be adopted.
absl::StatusOr<JobRecord> RecordOf(FileSystem& fs, const std::string& data_dir,
                                   const std::string& folder) {
  const std::string dir = JobFolder(data_dir, folder);
  LH_ASSIGN_OR_RETURN(JobManifest manifest, ReadJobManifest(fs, dir));
  if (manifest.id != folder) {
    return absl::DataLossError(absl::StrCat(dir, ": its manifest is that of job ", manifest.id,
                                            ", which has another folder"));
  }
  JobRecord job;
  job.id = manifest.id;
  job.name = manifest.name;
  job.idempotency_token = manifest.idempotency_token;
  job.state = JobState::kRunning;
  job.spec = manifest.spec;
  job.created = job.started = manifest.created;
  job.owner = manifest.owner;
  LH_ASSIGN_OR_RETURN(const bool ended, IsLogRemoved(fs, dir));
  if (ended) {
    LH_ASSIGN_OR_RETURN(const std::optional<v1::CheckpointManifest> last, LastCheckpoint(fs, dir));
    MakeEnded(*last, job);
  }
  return job;
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
  std::vector<JobRecord> found;
  for (const std::string& folder : findings.unknown_folders) {
    absl::StatusOr<JobRecord> job = RecordOf(fs, data_dir, folder);
    if (job.ok()) {
      found.push_back(*std::move(job));
    } else {
      adoption.left_alone.push_back(
          absl::StrCat(JobFolder(data_dir, folder), ": ", job.status().message()));
    }
  }
  std::stable_sort(found.begin(), found.end(),
                   [](const JobRecord& a, const JobRecord& b) { return a.created < b.created; });
  for (const JobRecord& job : found) {
    const MetaRecord record = NewJob{job};
    const absl::Status committed = meta.Commit({&record, 1});
    if (absl::IsAlreadyExists(committed)) {
      adoption.left_alone.push_back(
          absl::StrCat(JobFolder(data_dir, job.id), ": the id, the token or the name \"", job.name,
                       "\" is that of another job: ", committed.message()));
      continue;
    }
    LH_RETURN_IF_ERROR(committed);
    LH_ASSIGN_OR_RETURN(JobRecord adopted, meta.GetJob(job.id));
    adoption.adopted.push_back(std::move(adopted));
  }
  return adoption;
}

}  // namespace longhaul

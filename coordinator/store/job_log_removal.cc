#include "coordinator/store/job_log_removal.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/checkpoint/manifest.h"
#include "common/io/file_util.h"
#include "coordinator/store/checkpoint.h"
#include "coordinator/store/fatal.h"
#include "coordinator/store/job_folder.h"
#include "coordinator/store/replay.h"

namespace longhaul {
namespace {

absl::StatusOr<std::optional<v1::CheckpointManifest>> NewestCheckpoint(FileSystem& fs,
                                                                       const std::string& job_dir) {
  LH_ASSIGN_OR_RETURN(std::vector<v1::CheckpointManifest> found, ListCheckpoints(fs, job_dir));
  if (found.empty()) return std::nullopt;
  return std::move(found.back());
}

// Earlier versions set only `final`.
bool IsLast(const v1::CheckpointManifest& manifest) { return manifest.last() || manifest.final(); }

// Whether the log has nothing newer. Memory: the heads of frames.
absl::StatusOr<bool> HasAll(FileSystem& fs, const std::string& job_dir,
                            const v1::CheckpointManifest& checkpoint) {
  LH_ASSIGN_OR_RETURN(const std::vector<CommitRecord> commits,
                      LoggedCommits(fs, job_dir, /*leave_out_parts=*/false));
  std::map<int, Digest128> newest;
  for (const CommitRecord& commit : commits) newest[commit.round.fragment] = commit.digest;
  const auto& fragments = checkpoint.fragments();
  return std::all_of(fragments.begin(), fragments.end(), [&](const auto& fragment) {
    const auto found = newest.find(fragment.fragment());
    return found != newest.end() && found->second == DigestOf(fragment);
  });
}

}  // namespace

absl::StatusOr<std::optional<v1::CheckpointManifest>> ReadLastCheckpoint(
    FileSystem& fs, const std::string& job_dir) {
  LH_ASSIGN_OR_RETURN(std::optional<v1::CheckpointManifest> newest, NewestCheckpoint(fs, job_dir));
  if (newest.has_value() && !IsLast(*newest)) newest.reset();
  return newest;
}

absl::StatusOr<bool> IsLogRemoved(FileSystem& fs, const std::string& job_dir) {
  const absl::Status log = fs.List(LogFolder(job_dir)).status();
  if (log.ok()) return false;
  if (!absl::IsNotFound(log)) return log;
  LH_ASSIGN_OR_RETURN(const std::optional<v1::CheckpointManifest> last,
                      ReadLastCheckpoint(fs, job_dir));
  if (last.has_value()) return true;
  return absl::DataLossError(absl::StrCat(LogFolder(job_dir), " is missing"));
}

absl::StatusOr<bool> RemoveJobLog(FileSystem& fs, const std::string& job_dir) {
  const std::string log = LogFolder(job_dir), removed = RemovedLogFolder(job_dir);
  const std::string snapshots = SnapshotFolder(job_dir);
  // Each start looks at every job that has ended, so it is one look.
  LH_ASSIGN_OR_RETURN(const std::vector<std::string> names, ListIfThere(fs, job_dir));
  const auto is_there = [&](const std::string& path) {
    return absl::c_any_of(names, [&](const auto& n) { return JoinPath(job_dir, n) == path; });
  };
  const bool whole = is_there(log), begun = is_there(removed);
  if (!whole && !begun && !is_there(snapshots)) return true;
  LH_ASSIGN_OR_RETURN(std::optional<v1::CheckpointManifest> newest, NewestCheckpoint(fs, job_dir));
  if (!newest.has_value()) return false;
  if (!IsLast(*newest)) {
    if (!whole) return false;
    const absl::StatusOr<bool> has_all = HasAll(fs, job_dir, *newest);
    if (Passes(has_all.status())) return has_all;
    // What is damaged stays, and --check names it.
    if (!has_all.value_or(false)) return false;
  }
  if (whole) {
    const std::string folder = CheckpointPath(job_dir, newest->step());
    const std::vector<absl::Status> faults = CheckCheckpoint(fs, folder);
    if (!faults.empty()) return faults.front();
    if (!IsLast(*newest)) {
      newest->set_last(true);
      LH_ASSIGN_OR_RETURN(const std::string json, ManifestToJson(*newest));
      LH_RETURN_IF_ERROR(WriteFileAtomically(fs, JoinPath(folder, kManifestFile), json));
    }
    // The log loses its name before its files, so that what a crash leaves is not taken for a
    // damaged log.
    LH_RETURN_IF_ERROR(fs.Rename(log, removed));
    LH_RETURN_IF_ERROR(fs.SyncDir(job_dir));
  }
  LH_RETURN_IF_ERROR(RemoveFolder(fs, snapshots));
  LH_RETURN_IF_ERROR(RemoveFolder(fs, removed));
  LH_RETURN_IF_ERROR(fs.SyncDir(job_dir));
  return true;
}

}  // namespace longhaul

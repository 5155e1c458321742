#include "coordinator/store/job_log_removal.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/io/file_util.h"
#include "coordinator/store/checkpoint.h"
#include "coordinator/store/job_folder.h"

namespace longhaul {
namespace {

absl::StatusOr<bool> IsThere(FileSystem& fs, const std::string& folder) {
  const absl::StatusOr<std::vector<std::string>> names = fs.List(folder);
  if (absl::IsNotFound(names.status())) return false;
  LH_RETURN_IF_ERROR(names.status());
  return true;
}

}  // namespace

absl::StatusOr<std::optional<v1::CheckpointManifest>> LastCheckpoint(FileSystem& fs,
                                                                     const std::string& job_dir) {
  absl::StatusOr<std::vector<v1::CheckpointManifest>> found = ListCheckpoints(fs, job_dir);
  if (absl::IsNotFound(found.status())) return std::nullopt;
  LH_RETURN_IF_ERROR(found.status());
  // Earlier versions set only `final`.
  if (found->empty() || !(found->back().last() || found->back().final())) return std::nullopt;
  return std::move(found->back());
}

absl::StatusOr<bool> IsLogRemoved(FileSystem& fs, const std::string& job_dir) {
  LH_ASSIGN_OR_RETURN(const bool there, IsThere(fs, LogFolder(job_dir)));
  if (there) return false;
  LH_ASSIGN_OR_RETURN(const std::optional<v1::CheckpointManifest> last,
                      LastCheckpoint(fs, job_dir));
  if (last.has_value()) return true;
  return absl::DataLossError(absl::StrCat(LogFolder(job_dir), " is missing"));
}

absl::StatusOr<bool> RemoveJobLog(FileSystem& fs, const std::string& job_dir) {
  const std::string log = LogFolder(job_dir), removed = RemovedLogFolder(job_dir);
  const std::string snapshots = SnapshotFolder(job_dir);
  LH_ASSIGN_OR_RETURN(const bool whole, IsThere(fs, log));
  LH_ASSIGN_OR_RETURN(const bool begun, IsThere(fs, removed));
  LH_ASSIGN_OR_RETURN(const bool rest, IsThere(fs, snapshots));
  if (!whole && !begun && !rest) return true;
  LH_ASSIGN_OR_RETURN(const std::optional<v1::CheckpointManifest> last,
                      LastCheckpoint(fs, job_dir));
  if (!last.has_value()) return false;
  if (whole) {
    const std::vector<absl::Status> faults =
        CheckCheckpoint(fs, CheckpointPath(job_dir, last->step()));
    if (!faults.empty()) return faults.front();
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

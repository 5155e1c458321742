// The files that JobStore writes besides the log: snapshots and checkpoints.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "coordinator/store/checkpoint.h"
#include "coordinator/store/job_folder.h"
#include "coordinator/store/job_store.h"

namespace longhaul {
namespace {

constexpr size_t kGenerations = 2;

// Whether a multiple of `every` lies in (last + fragment, version + fragment]: the fragments take
// turns.
bool IsDue(int64_t version, int64_t last, int64_t fragment, int64_t every) {
  return (version + fragment + every) / every > (last + fragment + every) / every;
}

}  // namespace

absl::Status JobStore::MaybeSnapshot() {
  absl::MutexLock snapshot_lock(&snapshot_mutex_);
  for (size_t i = 0; i < fragments_.size(); ++i) LH_RETURN_IF_ERROR(WriteDueSnapshot(i));
  // Recovery may have to begin at the older generation of any fragment.
  uint64_t needed_from = UINT64_MAX;
  for (const std::unique_ptr<Fragment>& fragment : fragments_) {
    const std::vector<SnapshotFile>& kept = fragment->snapshots;
    needed_from =
        std::min(needed_from, kept.size() < kGenerations ? 0 : kept[0].commit_sequence + 1);
  }
  return log_->RemoveBefore(needed_from);
}

absl::Status JobStore::WriteDueSnapshot(int index) {
  Fragment& fragment = *fragments_[index];
  std::vector<SnapshotFile>& kept = fragment.snapshots;
  {
    absl::ReaderMutexLock lock(&fragment.mutex);
    LH_RETURN_IF_ERROR(log_->status());
    const int64_t last = kept.empty() ? -1 : kept.back().version;
    if (!IsDue(fragment.state.version, last, index, options().snapshot_every)) {
      return absl::OkStatus();
    }
    LH_ASSIGN_OR_RETURN(SnapshotFile snapshot,
                        WriteSnapshot(*fs_, SnapshotFolder(dir_), index, fragment.state));
    kept.push_back(std::move(snapshot));
  }
  while (kept.size() > kGenerations) {
    const std::string oldest = kept.front().path;
    kept.erase(kept.begin());
    LH_RETURN_IF_ERROR(fs_->Remove(oldest));
  }
  return absl::OkStatus();
}

absl::StatusOr<v1::CheckpointManifest> JobStore::WriteCheckpoint(v1::CheckpointManifest manifest) {
  absl::MutexLock checkpoint_lock(&checkpoint_mutex_);
  // All at once, so that the checkpoint is one cut through the job.
  std::vector<std::unique_ptr<absl::ReaderMutexLock>> locks;
  for (const std::unique_ptr<Fragment>& fragment : fragments_) {
    locks.push_back(std::make_unique<absl::ReaderMutexLock>(&fragment->mutex));
  }
  LH_RETURN_IF_ERROR(log_->status());
  for (size_t i = 0; i < fragments_.size(); ++i) LH_RETURN_IF_ERROR(LastCommit(i).status());
  const auto write = [&]() -> absl::StatusOr<v1::CheckpointManifest> {
    LH_ASSIGN_OR_RETURN(CheckpointWriter writer,
                        CheckpointWriter::Begin(fs_, dir_, std::move(manifest)));
    for (const std::unique_ptr<Fragment>& fragment : fragments_) {
      const FragmentState& state = fragment->state;
      LH_RETURN_IF_ERROR(writer.AddFragment(state.version, state.digest, state.theta));
    }
    return writer.Finish(options().checkpoints_keep);
  };
  absl::StatusOr<v1::CheckpointManifest> written = write();
  if (!written.ok()) (void)CleanCheckpoints(*fs_, dir_);  // gives the space back
  return written;
}

}  // namespace longhaul

// The files that JobStore writes besides the log: snapshots and checkpoints.
#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "coordinator/store/checkpoint.h"
#include "coordinator/store/disk_room.h"
#include "coordinator/store/job_folder.h"
#include "coordinator/store/job_store.h"
#include "coordinator/store/replay.h"

namespace longhaul {
namespace {

constexpr size_t kGenerations = 2;

// Whether a multiple of `every` lies in (last + fragment, version + fragment]. Adding `fragment`
// makes the fragments take turns.
bool IsDue(int64_t version, int64_t last, int64_t fragment, int64_t every) {
  return (version + fragment + every) / every > (last + fragment + every) / every;
}

// Usually nothing is written that cannot be completed (two writers may count on the same space):
// until it failed, it would take the space that commits need. The next files of the logs, and the
// database, keep room beside a checkpoint. A snapshot may take all, since after it the log shrinks.
absl::Status CheckSnapshotRoom(FileSystem& fs, const std::string& folder, int64_t elements) {
  return CheckDiskRoom(fs, folder, "a snapshot", elements * 3 * sizeof(float), /*reserve=*/0);
}

absl::Status CheckCheckpointRoom(FileSystem& fs, const std::string& folder,
                                 const JobStoreOptions& options) {
  int64_t elements = 0;
  for (const int64_t of_fragment : options.fragment_elements) elements += of_fragment;
  return CheckDiskRoom(fs, folder, "a checkpoint", elements * sizeof(float),
                       2 * options.log_file_bytes);
}

}  // namespace

absl::Status JobStore::MaybeSnapshot() {
  absl::MutexLock snapshot_lock(&snapshot_mutex_);
  for (size_t i = 0; i < fragments_.size(); ++i) LH_RETURN_IF_ERROR(WriteDueSnapshot(i));
  // Recovery may have to begin at the older generation of any fragment.
  uint64_t needed_from = UINT64_MAX;
  {
    absl::MutexLock files_lock(&files_mutex_);
    for (const std::unique_ptr<Fragment>& fragment : fragments_) {
      const std::vector<SnapshotFile>& kept = fragment->snapshots;
      needed_from =
          std::min(needed_from, kept.size() < kGenerations ? 0 : kept[0].commit_sequence + 1);
    }
  }
  return log_->RemoveBefore(needed_from);
}

absl::Status JobStore::WriteDueSnapshot(int index) {
  Fragment& fragment = *fragments_[index];
  int64_t last = -1;
  {
    absl::MutexLock files_lock(&files_mutex_);
    if (!fragment.snapshots.empty()) last = fragment.snapshots.back().version;
  }
  {
    absl::ReaderMutexLock lock(&fragment.mutex);
    LH_RETURN_IF_ERROR(log_->status());
    if (!IsDue(fragment.state.version, last, index, options().snapshot_every)) {
      return absl::OkStatus();
    }
  }
  const Workspace::Turn turn(workspace_);
  std::optional<FragmentState> copy;
  {
    absl::ReaderMutexLock lock(&fragment.mutex);
    LH_RETURN_IF_ERROR(log_->status());
    LH_RETURN_IF_ERROR(CheckSnapshotRoom(*fs_, SnapshotFolder(dir_), fragment.state.elements()));
    copy = fragment.state;
  }
  LH_ASSIGN_OR_RETURN(SnapshotFile snapshot,
                      WriteSnapshot(*fs_, SnapshotFolder(dir_), index, *copy));
  absl::MutexLock files_lock(&files_mutex_);
  std::vector<SnapshotFile>& kept = fragment.snapshots;
  kept.push_back(std::move(snapshot));
  while (kept.size() > kGenerations) {
    const std::string oldest = kept.front().path;
    kept.erase(kept.begin());
    LH_RETURN_IF_ERROR(fs_->Remove(oldest));
  }
  return absl::OkStatus();
}

absl::Status JobStore::Retire() { return log_->GiveBack(); }

absl::StatusOr<JobStore::Cut> JobStore::TakeCut(const std::vector<int64_t>& versions) {
  Cut cut;
  // No snapshot is added or removed while this lock is held. So the log still holds all frames
  // after the chosen snapshots.
  absl::MutexLock files_lock(&files_mutex_);
  {
    absl::MutexLock lock(&mutex_);
    for (size_t i = 0; i < fragments_.size(); ++i) {
      if (fragments_[i]->committed.round.version < 0) return NotSeeded(static_cast<int>(i));
      cut.versions.push_back(fragments_[i]->committed.round.version);
    }
  }
  cut.log_end = log_->next_sequence();
  uint64_t needed_from = cut.log_end;
  for (size_t i = 0; i < fragments_.size(); ++i) {
    const std::vector<SnapshotFile>& kept = fragments_[i]->snapshots;
    // A log is whole as long as there are no snapshots.
    if (i < versions.size() && (kept.empty() || kept[0].version <= versions[i]))
      cut.versions[i] = std::min(cut.versions[i], versions[i]);
    std::optional<SnapshotFile>& chosen = cut.snapshots.emplace_back();
    std::shared_ptr<const File>& file = cut.files.emplace_back();
    for (const SnapshotFile& snapshot : kept) {
      if (snapshot.version <= cut.versions[i]) chosen = snapshot;
    }
    if (chosen.has_value()) {
      LH_ASSIGN_OR_RETURN(file, fs_->Open(chosen->path));
    }
    needed_from = std::min(needed_from, chosen.has_value() ? chosen->commit_sequence + 1 : 0);
  }
  cut.pin.emplace(log_->PinFrom(needed_from));
  return cut;
}

absl::StatusOr<FloatArray> JobStore::ParametersAt(const Cut& cut, int fragment) {
  {
    const Fragment& found = *fragments_[fragment];
    absl::ReaderMutexLock lock(&found.mutex);
    LH_RETURN_IF_ERROR(log_->status());
    if (found.state.version == cut.versions[fragment]) return found.state.theta;
  }
  return RebuildParameters(cut, fragment);
}

absl::StatusOr<FloatArray> JobStore::RebuildParameters(const Cut& cut, int fragment) const {
  // The other threads are for rounds.
  constexpr int kThreads = 1;
  const int64_t version = cut.versions[fragment];
  FragmentState state(options().fragment_elements[fragment]);
  if (cut.snapshots[fragment].has_value()) {
    LH_RETURN_IF_ERROR(ReadSnapshot(*cut.files[fragment], *cut.snapshots[fragment], &state));
  }
  LH_ASSIGN_OR_RETURN(const std::vector<LogFrame> frames,
                      log_->Frames(state.commit_sequence + 1, cut.log_end));
  Replay replay(log_.get(), &options(), &rules_, kThreads);
  for (const LogFrame& frame : frames) {
    if (state.version == version) break;
    const absl::StatusOr<std::optional<LoggedCommit>> taken = replay.Take(frame);
    // The disk may have changed a part. If a commit of the cut needs it, it is missed there.
    if (frame.type == FrameType::kPart && absl::IsDataLoss(taken.status())) continue;
    LH_RETURN_IF_ERROR(taken.status());
    const std::optional<LoggedCommit>& commit = *taken;
    if (!commit.has_value()) continue;
    const RoundId& round = commit->record.round;
    if (round.fragment == fragment && round.version == state.version + 1) {
      LH_RETURN_IF_ERROR(replay.Repeat(frame, *commit, state));
    }
    replay.Forget(commit->record.round);
  }
  if (state.version == version) return std::move(state.theta);
  return absl::DataLossError(absl::StrCat(LogFolder(dir_), " lacks the commit of version ", version,
                                          " of fragment ", fragment));
}

absl::StatusOr<v1::CheckpointManifest> JobStore::WriteCheckpoint(
    v1::CheckpointManifest manifest, const std::vector<int64_t>& versions,
    const std::function<std::set<int64_t>()>& in_use) {
  absl::MutexLock checkpoint_lock(&checkpoint_mutex_);
  LH_RETURN_IF_ERROR(log_->status());
  LH_ASSIGN_OR_RETURN(const Cut cut, TakeCut(versions));
  const auto write = [&]() -> absl::StatusOr<v1::CheckpointManifest> {
    LH_RETURN_IF_ERROR(CheckCheckpointRoom(*fs_, CheckpointFolder(dir_), options()));
    LH_ASSIGN_OR_RETURN(CheckpointWriter writer,
                        CheckpointWriter::Begin(fs_, dir_, std::move(manifest)));
    for (size_t i = 0; i < fragments_.size(); ++i) {
      const Workspace::Turn turn(workspace_);
      LH_ASSIGN_OR_RETURN(const FloatArray theta, ParametersAt(cut, i));
      LH_RETURN_IF_ERROR(writer.AddFragment(cut.versions[i],
                                            DigestOf(BytesOf(absl::MakeConstSpan(theta))), theta));
    }
    return writer.Finish(options().checkpoints_keep, in_use ? in_use() : std::set<int64_t>());
  };
  absl::StatusOr<v1::CheckpointManifest> written = write();
  // Gives the space back.
  if (!written.ok()) (void)CleanCheckpoints(*fs_, dir_);
  return written;
}

}  // namespace longhaul

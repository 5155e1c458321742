// JobStore::Recover: loads the newest snapshots, applies the later rounds again, and compares each
// with the digest of its commit. Files that cannot be used are left in place.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "coordinator/store/checkpoint.h"
#include "coordinator/store/job_folder.h"
#include "coordinator/store/job_manifest.h"
#include "coordinator/store/job_store.h"
#include "coordinator/store/log_recovery.h"
#include "coordinator/store/replay.h"

namespace longhaul {
namespace {

// A store's folder gets its name only when it is complete. So a missing file was lost.
absl::Status Missing(const absl::Status& status) {
  return absl::IsNotFound(status) ? absl::DataLossError(status.message()) : status;
}

}  // namespace

absl::StatusOr<std::unique_ptr<JobStore>> JobStore::Recover(FileSystem* fs, const std::string& dir,
                                                            int apply_threads) {
  LH_RETURN_IF_ERROR(fs->List(dir).status());
  absl::StatusOr<JobManifest> manifest = ReadJobManifest(*fs, dir);
  if (absl::IsNotFound(manifest.status())) {
    return absl::DataLossError(
        absl::StrCat(ManifestPath(dir), " is missing: ", manifest.status().message()));
  }
  LH_RETURN_IF_ERROR(manifest.status());
  LH_ASSIGN_OR_RETURN(std::unique_ptr<JobStore> store,
                      Make(fs, dir, *std::move(manifest), apply_threads));
  LH_RETURN_IF_ERROR(Missing(store->Load()));
  return store;
}

absl::Status JobStore::Load() {
  // An earlier process may have ended between a rename and its sync. From here on recovery relies
  // on the names that it finds, so they must be durable.
  for (const std::string& folder : {dir_, LogFolder(dir_), SnapshotFolder(dir_)}) {
    LH_RETURN_IF_ERROR(fs_->SyncDir(folder));
  }
  LH_ASSIGN_OR_RETURN(SnapshotList snapshots, ListSnapshots(*fs_, SnapshotFolder(dir_)));
  LH_RETURN_IF_ERROR(LoadSnapshots(&snapshots));
  LH_ASSIGN_OR_RETURN(ScannedLog log, ScanLog(*fs_, LogFolder(dir_),
                                              {.salt = options().log_salt,
                                               .durable_upto = durable_upto_,
                                               .leave_out_parts = true}));
  recovery_.log_frames = log.frames.size();
  recovery_.torn_bytes_dropped = log.torn_bytes;
  recovery_.parts_rejected = static_cast<int64_t>(log.damaged.size());
  log_ = std::make_unique<Log>(fs_, LogFolder(dir_),
                               LogFileOptions{options().log_file_bytes, options().log_salt},
                               std::move(log.start));
  if (const absl::Status replayed = ReplayAll(log); !replayed.ok()) {
    if (snapshots.damaged.empty()) return replayed;
    // The log alone would be enough if the snapshot were good. So the error names both.
    return absl::Status(replayed.code(), absl::StrCat(replayed.message(), "; ",
                                                      snapshots.damaged[0].status.message()));
  }
  LH_RETURN_IF_ERROR(CleanCheckpoints(*fs_, dir_));
  LH_RETURN_IF_ERROR(RemoveLeftovers(*fs_, LogFolder(dir_), log));
  // The damaged snapshots are removed only now: until a newer good generation was found they were
  // the last trace of the state.
  recovery_.snapshots_rejected = snapshots.damaged.size();
  for (const DamagedSnapshot& damaged : snapshots.damaged) {
    LH_RETURN_IF_ERROR(fs_->Remove(damaged.path));
  }
  for (const std::string& path : snapshots.temporary) LH_RETURN_IF_ERROR(fs_->Remove(path));
  return absl::OkStatus();
}

// Adds snapshots that turn out to be damaged to list->damaged.
absl::Status JobStore::LoadSnapshots(SnapshotList* list) {
  for (SnapshotFile& file : list->files) {
    const absl::StatusOr<Fragment*> found = FindFragment(file.fragment);
    if (!found.ok()) {
      return absl::DataLossError(absl::StrCat(file.path, ": ", found.status().message()));
    }
    Fragment* const fragment = *found;
    durable_upto_ = std::max(durable_upto_, file.commit_sequence + 1);
    fragment->snapshots.push_back(std::move(file));
  }
  for (const std::unique_ptr<Fragment>& fragment : fragments_) {
    std::vector<SnapshotFile>& kept = fragment->snapshots;
    while (!kept.empty()) {
      const absl::Status read = ReadSnapshot(*fs_, kept.back(), &fragment->state);
      if (read.ok()) break;
      if (!absl::IsDataLoss(read)) return read;
      // Recovery goes on after a damaged snapshot: the log reaches back to the earlier generation.
      list->damaged.push_back({kept.back().path, read});
      kept.pop_back();
      fragment->state = FragmentState(fragment->state.elements());
    }
  }
  return absl::OkStatus();
}

absl::Status JobStore::ReplayAll(const ScannedLog& log) {
  const std::vector<LogFrame>& frames = log.frames;
  Replay replay(log_.get(), &options(), &rules_, apply_threads_);
  replay.AddDamaged(log.damaged);
  for (const LogFrame& frame : frames) {
    LH_ASSIGN_OR_RETURN(const std::optional<LoggedCommit> commit, replay.Take(frame));
    if (!commit.has_value()) continue;
    LH_RETURN_IF_ERROR(replay.CheckInputs(frame, *commit));
    LH_RETURN_IF_ERROR(ReplayCommit(frame, *commit, replay));
    replay.Forget(commit->record.round);
  }
  uint64_t begin = frames.empty() ? log_->next_sequence() : frames.front().sequence;
  // A part that is left out is there all the same.
  if (!log.damaged.empty()) begin = std::min(begin, log.damaged.front().sequence);
  for (size_t i = 0; i < fragments_.size(); ++i) {
    const Fragment& fragment = *fragments_[i];
    if (fragment.committed.round.version != fragment.state.version) {
      return absl::DataLossError(absl::StrCat(LogFolder(dir_), " lacks the commit of version ",
                                              fragment.state.version, " of fragment ", i));
    }
    if (fragment.state.version < 0 && begin > 1) {
      return absl::DataLossError(absl::StrCat(LogFolder(dir_), " begins at frame ", begin,
                                              ", and there is no good snapshot of fragment ", i,
                                              " in ", SnapshotFolder(dir_)));
    }
  }
  for (StoredPart& part : replay.TakeParts()) {
    // A commit takes all parts of its version and of earlier ones. But a part may have been
    // appended while its round was committed without it; such a part is dropped.
    const absl::StatusOr<Fragment*> fragment = FindFragment(part.info.round.fragment);
    if (fragment.ok() && part.info.round.version == (*fragment)->committed.round.version + 1) {
      pending_.push_back(std::move(part));
    }
  }
  return absl::OkStatus();
}

absl::Status JobStore::ReplayCommit(const LogFrame& frame, const LoggedCommit& commit,
                                    const Replay& replay) {
  const CommitRecord& record = commit.record;
  const absl::StatusOr<Fragment*> found = FindFragment(record.round.fragment);
  if (!found.ok()) return replay.Lost(frame, record, "no such fragment");
  Fragment& fragment = **found;
  FragmentState& state = fragment.state;
  if (record.round.version < state.version) return absl::OkStatus();
  recovery_.commits_replayed += record.round.version > state.version;
  LH_RETURN_IF_ERROR(replay.Repeat(frame, commit, state));
  LH_ASSIGN_OR_RETURN(fragment.downlink, replay.FindDownlink(frame, commit));
  fragment.committed = record;
  return absl::OkStatus();
}

}  // namespace longhaul

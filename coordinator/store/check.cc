#include "coordinator/store/check.h"

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "coordinator/store/checkpoint.h"
#include "coordinator/store/data_folder.h"
#include "coordinator/store/fragment_state.h"
#include "coordinator/store/job_folder.h"
#include "coordinator/store/job_log_removal.h"
#include "coordinator/store/job_manifest.h"
#include "coordinator/store/job_state_file.h"
#include "coordinator/store/log_recovery.h"
#include "coordinator/store/meta_store.h"
#include "coordinator/store/replay.h"
#include "coordinator/store/snapshot.h"
#include "coordinator/store/uploads.h"
#include "coordinator/store/wal_check.h"

namespace longhaul {
namespace {

constexpr int64_t kDatabaseBytesMax = int64_t{1} << 32;

// The digests of a fragment's state. They tell whether a state that was made again is the same.
struct StateDigests {
  int64_t version = -1;
  Digest128 theta, momentum, error;
  friend bool operator==(const StateDigests&, const StateDigests&) = default;
};

StateDigests DigestsOf(const FragmentState& state) {
  return {state.version, DigestOf(BytesOf(absl::MakeConstSpan(state.theta))),
          DigestOf(BytesOf(absl::MakeConstSpan(state.momentum))),
          DigestOf(BytesOf(absl::MakeConstSpan(state.error)))};
}

class JobCheck {
 public:
  JobCheck(FileSystem& fs, std::string dir, std::string id, int threads, CheckReport* report)
      : fs_(fs), dir_(std::move(dir)), id_(std::move(id)), threads_(threads), report_(*report) {}

  void Run() {
    ++report_.jobs;
    Find(CheckStore());
    Find(CheckCheckpoints());
  }

 private:
  struct Fragment {
    explicit Fragment(int64_t elements) : state(elements) {}
    FragmentState state;
    // Snapshots that are newer than the state.
    std::vector<StateDigests> snapshots;
    int64_t committed = -1;
    // The log has a fault for this fragment. Later commits of it are not checked: every one would
    // fail.
    bool broken = false;
  };

  void Find(const absl::Status& status) {
    if (!status.ok()) report_.findings.push_back(std::string(status.message()));
  }

  absl::Status CheckStore() {
    const absl::StatusOr<JobManifest> manifest = ReadJobManifest(fs_, dir_);
    if (absl::IsNotFound(manifest.status())) {
      return absl::DataLossError(absl::StrCat(ManifestPath(dir_), " is missing"));
    }
    LH_RETURN_IF_ERROR(manifest.status());
    if (manifest->id != id_) {
      Find(absl::DataLossError(
          absl::StrCat(ManifestPath(dir_), " is the manifest of job ", manifest->id)));
    }
    Find(ReadJobState(fs_, dir_).status());
    options_ = manifest->options;
    LH_ASSIGN_OR_RETURN(rules_, MakeOuterRules(options_));
    LH_ASSIGN_OR_RETURN(const bool ended, IsLogRemoved(fs_, dir_));
    if (ended) {
      for (const std::string& left : {RemovedLogFolder(dir_), SnapshotFolder(dir_)}) {
        if (fs_.List(left).ok())
          report_.notes.push_back(absl::StrCat(left, ": the next start removes it"));
      }
      return absl::OkStatus();
    }
    for (const int64_t elements : options_.fragment_elements) fragments_.emplace_back(elements);
    LH_RETURN_IF_ERROR(CheckSnapshots());
    return CheckLog();
  }

  absl::Status CheckSnapshots() {
    LH_ASSIGN_OR_RETURN(const SnapshotList list, ListSnapshots(fs_, SnapshotFolder(dir_)));
    for (const DamagedSnapshot& damaged : list.damaged) Find(damaged.status);
    for (const std::string& path : list.temporary) {
      report_.notes.push_back(absl::StrCat(path, " was left by an interrupted writer"));
    }
    for (const SnapshotFile& file : list.files) {
      if (file.fragment < 0 || file.fragment >= static_cast<int>(fragments_.size())) {
        Find(absl::DataLossError(absl::StrCat(file.path, " belongs to no fragment of the job")));
        continue;
      }
      ++report_.snapshots;
      Fragment& fragment = fragments_[file.fragment];
      FragmentState state(fragment.state.elements());
      const absl::Status read = ReadSnapshot(fs_, file, &state);
      Find(read);
      if (!read.ok()) continue;
      durable_upto_ = std::max(durable_upto_, file.commit_sequence + 1);
      if (fragment.state.version < 0) {
        fragment.state = std::move(state);
      } else {
        fragment.snapshots.push_back(DigestsOf(state));
      }
    }
    return absl::OkStatus();
  }

  absl::Status CheckLog() {
    LH_ASSIGN_OR_RETURN(ScannedLog scanned, ScanLog(fs_, LogFolder(dir_),
                                                    {.salt = options_.log_salt,
                                                     .durable_upto = durable_upto_,
                                                     .read_only = true,
                                                     .leave_out_parts = true}));
    report_.log_frames += scanned.frames.size();
    if (scanned.torn_bytes > 0) {
      report_.notes.push_back(
          absl::StrCat(LogFolder(dir_), ": ", scanned.torn_bytes,
                       " bytes after the last complete frame, torn by a crash"));
    }
    const Log log(&fs_, LogFolder(dir_), {options_.log_file_bytes, options_.log_salt},
                  std::move(scanned.start));
    Replay replay(&log, &options_, &rules_, threads_);
    replay.AddDamaged(scanned.damaged);
    // A loss once they are committed; otherwise their pools send them again.
    std::map<uint64_t, absl::Status> uncommitted;
    for (const DamagedFrame& part : scanned.damaged) uncommitted[part.sequence] = part.status;
    for (const LogFrame& frame : scanned.frames) {
      const absl::StatusOr<std::optional<LoggedCommit>> commit = replay.Take(frame);
      Find(commit.status());
      if (!commit.ok() || !commit->has_value()) continue;
      for (const std::vector<LoggedCommit::Input>& inputs : (*commit)->inputs)
        for (const LoggedCommit::Input& input : inputs) uncommitted.erase(input.sequence);
      Find(CheckCommit(frame, **commit, replay));
      replay.Forget((*commit)->record.round);
    }
    for (const auto& [sequence, status] : uncommitted) Find(status);
    const bool begins_later = !scanned.frames.empty() && scanned.frames.front().sequence > 1 &&
                              (scanned.damaged.empty() || scanned.damaged.front().sequence > 1);
    for (size_t i = 0; i < fragments_.size(); ++i) {
      const Fragment& fragment = fragments_[i];
      if (fragment.broken) continue;
      if (begins_later && fragment.state.version < 0) {
        Find(absl::DataLossError(absl::StrCat(SnapshotFolder(dir_), " has no snapshot of fragment ",
                                              i, ", and the log begins later")));
      }
      for (const StateDigests& snapshot : fragment.snapshots) {
        Find(absl::DataLossError(absl::StrCat(LogFolder(dir_), " lacks the commit of version ",
                                              snapshot.version, " of fragment ", i,
                                              ", of which there is a snapshot")));
      }
      if (fragment.committed >= 0 || fragment.state.version < 0) continue;
      Find(absl::DataLossError(absl::StrCat(LogFolder(dir_), " has no commit of fragment ", i)));
    }
    return absl::OkStatus();
  }

  absl::Status CheckCommit(const LogFrame& frame, const LoggedCommit& commit,
                           const Replay& replay) {
    const CommitRecord& record = commit.record;
    const auto& [index, version, kind] = record.round;
    if (index < 0 || index >= static_cast<int>(fragments_.size())) {
      return replay.Lost(frame, record, "no such fragment");
    }
    Fragment& fragment = fragments_[index];
    FragmentState& state = fragment.state;
    if (const absl::Status inputs = replay.CheckInputs(frame, commit); !inputs.ok()) {
      fragment.broken = true;
      return inputs;
    }
    if (fragment.broken || version < state.version) return absl::OkStatus();
    const bool next = version > state.version;
    absl::Status checked = replay.Repeat(frame, commit, state);
    if (checked.ok()) report_.rounds += next;
    if (checked.ok()) checked = replay.FindDownlink(frame, commit).status();
    fragment.broken = !checked.ok();
    LH_RETURN_IF_ERROR(checked);
    fragment.committed = version;
    std::vector<StateDigests>& snapshots = fragment.snapshots;
    if (snapshots.empty() || snapshots.front().version != state.version) return absl::OkStatus();
    const bool same = snapshots.front() == DigestsOf(state);
    snapshots.erase(snapshots.begin());
    return same ? absl::OkStatus()
                : replay.Lost(frame, record, "the snapshot of this version holds another state");
  }

  absl::Status CheckCheckpoints() {
    const std::string folder = CheckpointFolder(dir_);
    LH_ASSIGN_OR_RETURN(const std::vector<std::string> names, fs_.List(folder));
    for (const std::string& name : names) {
      const std::string path = JoinPath(folder, name);
      if (absl::EndsWith(name, ".tmp") || absl::EndsWith(name, ".old")) {
        report_.notes.push_back(absl::StrCat(path, " was left by an interrupted writer"));
        continue;
      }
      ++report_.checkpoints;
      for (const absl::Status& found : CheckCheckpoint(fs_, path)) Find(found);
    }
    return absl::OkStatus();
  }

  FileSystem& fs_;
  const std::string dir_, id_;
  const int threads_;
  CheckReport& report_;
  JobStoreOptions options_;
  OuterRules rules_;
  std::vector<Fragment> fragments_;
  uint64_t durable_upto_ = 0;
};

// Reads the database with its write-ahead log merged, as a coordinator would see it after a start.
absl::StatusOr<std::unique_ptr<MetaStore>> ReadDatabase(FileSystem& fs, const std::string& path) {
  LH_ASSIGN_OR_RETURN(std::string database, ReadFile(fs, path, kDatabaseBytesMax));
  const std::string wal_path = absl::StrCat(path, "-wal");
  absl::StatusOr<std::string> wal = ReadFile(fs, wal_path, kDatabaseBytesMax);
  if (absl::IsNotFound(wal.status())) wal = "";
  LH_RETURN_IF_ERROR(wal.status());
  if (database.empty()) return absl::DataLossError(absl::StrCat(path, " is empty"));
  LH_ASSIGN_OR_RETURN(database, MergeWal(std::move(database), *wal, wal_path));
  return MetaStore::OpenImage(database, path);
}

// Returns the ids of deleted jobs whose files may still exist.
std::vector<std::string> CheckDatabase(FileSystem& fs, const std::string& data_dir,
                                       CheckReport* report) {
  const auto find = [&](absl::string_view what) {
    report->findings.emplace_back(what);
    return std::vector<std::string>();
  };
  const absl::StatusOr<std::unique_ptr<MetaStore>> meta = ReadDatabase(fs, DatabasePath(data_dir));
  if (absl::IsNotFound(meta.status())) {
    return find(absl::StrCat(DatabasePath(data_dir), " is missing"));
  }
  if (!meta.ok()) return find(meta.status().message());
  const absl::StatusOr<FolderFindings> folders = CompareFolders(fs, data_dir, **meta);
  if (!folders.ok()) return find(folders.status().message());
  for (const std::string& folder : folders->unknown_folders) {
    find(absl::StrCat(JobFolder(data_dir, folder),
                      ": the database does not know this job (--adopt makes it known)"));
  }
  for (const JobKey& job : folders->missing_folders) {
    find(absl::StrCat(JobFolder(data_dir, job.id), " is missing: the folder of job ", job.name));
  }
  for (const JobKey& job : folders->jobs) {
    const std::string folder = JobFolder(data_dir, job.id);
    if (!job.has_ended() && IsLogRemoved(fs, folder).value_or(false)) {
      find(absl::StrCat(folder,
                        ": the log was removed, since the job has ended, but the database "
                        "has the job as one that has not"));
    }
  }
  return (*meta)->ListUnremoved().value_or(std::vector<std::string>());
}

}  // namespace

std::string CheckReport::Summary() const {
  return absl::StrCat("checked ", jobs, " jobs: ", log_frames, " frames of logs, ", snapshots,
                      " snapshots, ", rounds, " rounds applied again, ", checkpoints,
                      " checkpoints, ", uploads, " uploads");
}

CheckReport CheckDataFolder(FileSystem& fs, const std::string& data_dir, int threads) {
  CheckReport report;
  const std::vector<std::string> removing = CheckDatabase(fs, data_dir, &report);
  const absl::StatusOr<std::vector<std::string>> names = fs.List(JobsFolder(data_dir));
  if (!names.ok()) {
    report.findings.push_back(std::string(names.status().message()));
    return report;
  }
  for (const std::string& name : *names) {
    const std::string dir = JobFolder(data_dir, name);
    if (absl::EndsWith(name, ".tmp")) {
      report.notes.push_back(absl::StrCat(dir, " was left by an interrupted writer"));
    } else if (std::find(removing.begin(), removing.end(), name) != removing.end()) {
      report.notes.push_back(
          absl::StrCat(dir, " belongs to a deleted job: the next start removes the rest"));
    } else {
      JobCheck(fs, dir, name, threads, &report).Run();
    }
  }
  for (std::string& finding : CheckUploads(fs, data_dir, &report.uploads))
    report.findings.push_back(std::move(finding));
  return report;
}

}  // namespace longhaul

// The parameters of one job: the outer state of every fragment, and the log that makes it durable.
//
// Memory (JobStoreBytes), for any number of pools and readers:
//   12 bytes a parameter       theta, momentum and server error
//   12 of the largest fragment the workspace: one copy at a time, for a snapshot (12), a checkpoint
//                              (4, or 12 if a version must be made again) or the reading of initial
//                              parameters (4). It also takes their turns (workspace.h)
//   the coded downlink         of the largest fragment: that of the newest commit, since the pools
//                              are about to pull it; then that of the next one, in its place
// Not counted, since it is small: what says where the log has the downlink, below 64 bytes for each
// tile; the segments of contributions to rounds that wait, usually 16 bytes for each tile; while a
// round is measured or applied, for each of its threads, the coded bytes of one tile of every
// contribution;
// buffers of 1 MiB for reading and writing files.
//
// Readers get copies of the blocks that they ask for, and keep nothing alive here: a reader that is
// slow asks for its next blocks later, and finds out if a round was applied meanwhile. Then it
// begins again: whoever lets rounds be applied sees to it that readers come to an end.
//
// The log is the inputs: coded contributions are appended as they come (AppendPart). A commit
// (Apply) adds one record, which names the contributions and the digest of the result, and one
// sync. Recovery loads the newest snapshots, applies the later rounds again and compares the
// digests. FORMAT.md (in this folder) defines every byte.
//
//   <dir>/manifest                     options, written once
//   <dir>/log/                         frames
//   <dir>/snap/                        two generations of each fragment
//   <dir>/checkpoints/step-NNNNNNNN/   for people and tools
//
// Thread-safe; every method may block on the disk. AppendPart may run in any number of threads and
// beside everything else. Apply of a fragment excludes readers of that fragment, so that each read
// sees one version. Reads run in parallel, and so do Applies of seeds of different fragments; of
// rounds with a downlink one is applied at a time. MaybeSnapshot and
// WriteCheckpoint delay an Apply of a fragment while they copy its memory, but never while they
// write to the disk.
//
// Errors of every method, besides those given: NOT_FOUND (no such fragment), and fatal ones
// (fatal.h: INTERNAL or DATA_LOSS). After a fatal error every call fails with it, and the process
// must exit. RESOURCE_EXHAUSTED: the disk is full. The call changed nothing, nothing acknowledged
// is lost, and the call may be repeated later.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/blocks/float_array.h"
#include "common/codec/codec.h"
#include "common/io/digest.h"
#include "common/io/filesystem.h"
#include "common/layout/fragment_layout.h"
#include "coordinator/job/outer_guard.h"
#include "coordinator/store/downlink.h"
#include "coordinator/store/fragment_state.h"
#include "coordinator/store/job_manifest.h"
#include "coordinator/store/log.h"
#include "coordinator/store/log_recovery.h"
#include "coordinator/store/ordered_tiles.h"
#include "coordinator/store/replay.h"
#include "coordinator/store/round_records.h"
#include "coordinator/store/snapshot.h"
#include "coordinator/store/workspace.h"
#include "longhaul/v1/checkpoint.pb.h"

namespace longhaul {

// Removes the folder of a job's store, which must not be open. OK if there is none. After an error
// or a crash it may be repeated. Durable.
absl::Status RemoveJobStore(FileSystem& fs, const std::string& dir);

// The most bytes that an open store with these options takes, as above. Pure.
int64_t JobStoreBytes(const JobStoreOptions& options);

struct RoundInput {
  RoundId round;
  // In the order of the sum. A seed has exactly one, coded in fp32; a skipped round has none.
  std::vector<Contribution> contributions;
  // Kept in the commit.
  std::string evaluator;
  absl::Time due = absl::InfinitePast();
  OuterNote outer = {};
};

// What a reader of some blocks is told before it reads them.
struct OuterDigest {
  int64_t version = 0;
  // Of the parameters of these blocks at that version.
  Digest128 digest;
  // Whether ReadDownlink has that version.
  bool has_downlink = false;
};

// What Recover did. The service logs it.
struct RecoveryReport {
  int64_t commits_replayed = 0;
  int64_t log_frames = 0;
  // Bytes after the last whole frame.
  int64_t torn_bytes_dropped = 0;
  // Damaged snapshots; the disk should be examined. An earlier generation was used instead.
  int64_t snapshots_rejected = 0;
  // Damaged parts of rounds that are not committed; likewise. They count as not there.
  int64_t parts_rejected = 0;
};

class JobStore {
 public:
  // Makes the store of a new job; `fs` outlives it. The folder gets its name only when it is
  // complete. So after an error or a crash there is no store, and the call may be repeated.
  // ALREADY_EXISTS: there is a store already. INVALID_ARGUMENT: the options. DATA_LOSS: there are
  // files of a store without a manifest. `apply_threads` (also below): how many threads share the
  // tiles of a round. Results do not depend on it.
  static absl::StatusOr<std::unique_ptr<JobStore>> Create(FileSystem* fs, const std::string& dir,
                                                          const JobManifest& manifest,
                                                          int apply_threads = TileThreads());
  // Opens an existing store. Every acknowledged commit is present. Parts of rounds without a commit
  // are present if the log still holds them whole. No error is fatal, and none changes anything.
  // Each error names the file, and the offset where there is one. NOT_FOUND: there is no folder.
  // DATA_LOSS: something is missing, or damaged although it was durable. FAILED_PRECONDITION:
  // another format or another version of the arithmetic wrote it.
  static absl::StatusOr<std::unique_ptr<JobStore>> Recover(FileSystem* fs, const std::string& dir,
                                                           int apply_threads = TileThreads());
  ~JobStore();

  const JobManifest& manifest() const { return manifest_; }
  const JobStoreOptions& options() const { return manifest_.options; }
  const RecoveryReport& recovery() const { return recovery_; }

  // Appends a part. Its payload may lie in pieces; SegmentChecker must have accepted its segments.
  // It is not durable until the commit that names it. FAILED_PRECONDITION: `part.version` is not
  // the next version of the fragment. INVALID_ARGUMENT: malformed. The caller keeps the result,
  // since the store has no list of the parts. It is valid until the round is committed.
  absl::StatusOr<StoredPart> AppendPart(const PartInfo& part, Log::Pieces payload);

  // Call once after Recover: returns the parts of rounds that are not committed, in the order in
  // which they were appended. Later calls return nothing.
  std::vector<StoredPart> TakePending();

  // Measures the contributions to a round that Apply may perform later, in their order: decodes
  // each of them once. Changes nothing. Errors: as Apply, but for a full disk.
  absl::StatusOr<std::vector<OuterMeasure>> Measure(const RoundInput& input);

  // Performs a round and returns when it is durable; then it may be published. FAILED_PRECONDITION:
  // the version is not the next one. INVALID_ARGUMENT: the contributions do not hold every block
  // exactly once, a weight is out of range, or a part belongs to another round. DATA_LOSS that is
  // not fatal: the disk changed a part (DamagedPartOf, damaged_part.h). Nothing was applied; the
  // round may be performed without the part, or when its blocks were appended again.
  absl::StatusOr<CommitRecord> Apply(const RoundInput& input);

  // The committed version of a fragment, or -1 before the seed. Never waits for an Apply.
  absl::StatusOr<int64_t> Version(int fragment) const;
  // The newest commit. FAILED_PRECONDITION: not seeded. Never waits for an Apply.
  absl::StatusOr<CommitRecord> LastCommit(int fragment) const;

  // The newest version of a fragment, and the digest of these blocks (disjoint, ascending). For the
  // whole fragment it is not computed, so it is cheap. FAILED_PRECONDITION: not seeded.
  // INVALID_ARGUMENT: a range is outside the fragment.
  absl::StatusOr<OuterDigest> DigestOuter(int fragment, absl::Span<const BlockRange> blocks) const;
  // Copies the outer parameters of these blocks, as segments coded in fp32. The caller bounds what
  // it asks for at once. FAILED_PRECONDITION: not seeded, or `version` is not the newest.
  // INVALID_ARGUMENT: as above.
  absl::StatusOr<CodedBlocks> ReadOuter(int fragment, int64_t version,
                                        absl::Span<const BlockRange> blocks) const;
  // Likewise the downlink that made `version`, from memory if it is that of the newest commit, else
  // from the log. FAILED_PRECONDITION: it is not the newest version, or it has no downlink (seed,
  // skipped).
  absl::StatusOr<CodedBlocks> ReadDownlink(int fragment, int64_t version,
                                           absl::Span<const BlockRange> blocks) const;

  // Whoever copies a fragment, here or for this store, has a turn of it while the copy exists.
  Workspace& workspace() { return workspace_; }

  // Writes the snapshots that are due, and removes files of the log that no recovery needs. Meant
  // for a background thread: one call at a time works, others wait. After an error that is not
  // fatal, earlier snapshots and the log are unchanged.
  absl::Status MaybeSnapshot();

  // Call when the job has ended: gives back the disk space that was prepared for later rounds.
  absl::Status Retire();

  // Writes a checkpoint: one consistent cut through all fragments. It delays no round, and a
  // snapshot until its present fragment is written. Fragments that are beyond the cut by then are
  // made again from a snapshot and the log, with one thread.
  // `versions` has the version of every fragment in the cut, even if some are beyond it already; or
  // it is empty. Then, or if its log does not reach back so far, a fragment is taken at its newest.
  // Then removes the oldest checkpoints beyond options().checkpoints_keep, except those of the
  // steps that `in_use` returns at that moment.
  // The caller sets job_id, job_name, step, final, created_at and tensors, and any other field; the
  // result has the rest. FAILED_PRECONDITION: a fragment is not seeded.
  absl::StatusOr<v1::CheckpointManifest> WriteCheckpoint(
      v1::CheckpointManifest manifest, const std::vector<int64_t>& versions = {},
      const std::function<std::set<int64_t>()>& in_use = nullptr);

 private:
  struct Fragment {
    explicit Fragment(int64_t elements) : state(elements) {}
    mutable absl::Mutex mutex;
    FragmentState state ABSL_GUARDED_BY(mutex);
    // The downlink of state.version; empty if it has none.
    DownlinkIndex downlink ABSL_GUARDED_BY(mutex);
    // Guarded by JobStore::mutex_.
    CommitRecord committed;
    // The snapshots that are kept, oldest first. Guarded by JobStore::files_mutex_.
    std::vector<SnapshotFile> snapshots;
  };

  JobStore(FileSystem* fs, std::string dir, JobManifest manifest, OuterRules rules,
           int apply_threads);
  static absl::StatusOr<std::unique_ptr<JobStore>> Make(FileSystem* fs, const std::string& dir,
                                                        const JobManifest& manifest,
                                                        int apply_threads);
  absl::StatusOr<Fragment*> FindFragment(int fragment) const;

  // The steps of Apply. The parts are read before any state changes, since the outer step works in
  // place.
  absl::Status VerifyContributions(const RoundInput& input);
  absl::StatusOr<CommitRecord> Perform(LoggedCommit commit, const ContributionReader& contributions,
                                       Log::Reservation& reservation, Fragment& fragment)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(fragment.mutex);
  void Publish(const CommitRecord& record, std::unique_ptr<DownlinkBytes> downlink,
               Fragment& fragment);
  // Returns memory for the downlink of the next commit, in place of the newest one's.
  std::unique_ptr<DownlinkBytes> TakeDownlinkBytes(RoundKind kind, int64_t elements);

  // The steps of Recover. They take no locks, since no other thread has the store yet.
  absl::Status Load() ABSL_NO_THREAD_SAFETY_ANALYSIS;
  absl::Status LoadSnapshots(SnapshotList* list) ABSL_NO_THREAD_SAFETY_ANALYSIS;
  absl::Status ReplayAll(const ScannedLog& log) ABSL_NO_THREAD_SAFETY_ANALYSIS;
  absl::Status ReplayCommit(const LogFrame& frame, const LoggedCommit& commit,
                            const Replay& replay) ABSL_NO_THREAD_SAFETY_ANALYSIS;

  // One version of every fragment, and what is needed to make it again.
  struct Cut {
    // By fragment.
    std::vector<int64_t> versions;
    // By fragment: the newest snapshot that is not newer than the version.
    std::vector<std::optional<SnapshotFile>> snapshots;
    // By fragment: the open file of the snapshot.
    std::vector<std::shared_ptr<const File>> files;
    // The sequences of all commits of the cut are smaller.
    uint64_t log_end = 0;
    std::optional<Log::Pin> pin;
  };
  // See WriteCheckpoint.
  absl::StatusOr<Cut> TakeCut(const std::vector<int64_t>& versions);
  // The parameters of a fragment at the cut: a copy if the fragment is still at that version,
  // otherwise made again.
  absl::StatusOr<FloatArray> ParametersAt(const Cut& cut, int fragment);
  absl::StatusOr<FloatArray> RebuildParameters(const Cut& cut, int fragment) const;
  absl::Status WriteDueSnapshot(int index) ABSL_EXCLUSIVE_LOCKS_REQUIRED(snapshot_mutex_);

  FileSystem* const fs_;
  const std::string dir_;
  const JobManifest manifest_;
  const OuterRules rules_;
  const int apply_threads_;
  RecoveryReport recovery_;
  // Set before any other thread has the store.
  std::unique_ptr<Log> log_;
  std::vector<std::unique_ptr<Fragment>> fragments_;
  // Frames of smaller sequences were durable when the snapshots were written. Used by recovery.
  uint64_t durable_upto_ = 0;
  // Mutexes are taken in this order: snapshot_mutex_, checkpoint_mutex_ or round_mutex_, a turn of
  // workspace_, files_mutex_, a fragment's mutex, newest_mutex_ or mutex_. Each of the first three
  // is held by one writer; round_mutex_ while a round with a downlink is applied.
  absl::Mutex snapshot_mutex_, checkpoint_mutex_, round_mutex_;
  Workspace workspace_;
  // Held while the lists of snapshots or the names of their files change.
  absl::Mutex files_mutex_;
  mutable absl::Mutex mutex_;
  // For TakePending.
  std::vector<StoredPart> pending_ ABSL_GUARDED_BY(mutex_);
  // The newest commit that has a downlink, unless a round is making the next one in its memory.
  struct NewestDownlink {
    int fragment = -1;
    int64_t version = -1;
    std::unique_ptr<DownlinkBytes> bytes;
  };
  mutable absl::Mutex newest_mutex_;
  NewestDownlink newest_downlink_ ABSL_GUARDED_BY(newest_mutex_);
};

}  // namespace longhaul

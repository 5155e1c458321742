// The parameters of one job: the outer state of every fragment (theta, momentum, server error: 12
// bytes a parameter; nothing else here grows with the parameters but the coded downlink of the
// newest commit, which its pools are about to pull) and the log that makes it durable.
//
// The log is the inputs: coded contributions go to it as they come (AppendPart), a commit (Apply)
// adds one record that names them and the digest of the result, and one sync. Recovery loads the
// newest snapshots, applies the later rounds again and compares the digests. FORMAT.md (beside this
// file) gives every byte.
//
//   <dir>/manifest                     options, written once
//   <dir>/log/                         frames
//   <dir>/snap/                        two generations of each fragment
//   <dir>/checkpoints/step-NNNNNNNN/   for people and tools
//
// Thread-safe; every method may block on the disk. AppendPart may run in any number of threads and
// beside everything else. Apply of one fragment excludes readers of that fragment, so that they see
// one version; applies of different fragments, and reads, run in parallel. MaybeSnapshot and
// WriteCheckpoint hold off Apply of a fragment for the length of a copy in memory, never of a write.
//
// Errors of every method, besides those given: NOT_FOUND (no such fragment), and fatal ones
// (fatal.h: INTERNAL or DATA_LOSS), after which every call fails alike and the process must exit.
// RESOURCE_EXHAUSTED: the disk is full; the call changed nothing, nothing acknowledged is lost, and
// it may be repeated later.
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
#include "absl/types/span.h"
#include "common/blocks/float_array.h"
#include "common/codec/codec.h"
#include "common/io/digest.h"
#include "common/io/filesystem.h"
#include "common/layout/fragment_layout.h"
#include "coordinator/store/downlink.h"
#include "coordinator/store/fragment_state.h"
#include "coordinator/store/job_manifest.h"
#include "coordinator/store/log.h"
#include "coordinator/store/ordered_tiles.h"
#include "coordinator/store/replay.h"
#include "coordinator/store/round_records.h"
#include "coordinator/store/snapshot.h"
#include "longhaul/v1/checkpoint.pb.h"

namespace longhaul {

// Removes the folder of a job's store, which nobody has open. OK if there is none; after an error
// or a crash it may be repeated. Durable.
absl::Status RemoveJobStore(FileSystem& fs, const std::string& dir);

struct RoundInput {
  int fragment = 0;
  int64_t version = 0;  // That the round makes.
  RoundKind kind = RoundKind::kOuter;
  std::vector<Contribution>
      contributions;      // In the order of the sum. Seed: exactly one, coded fp32. Skipped: none.
  std::string evaluator;  // Kept in the commit.
};

struct OuterBlocks {
  int64_t version = 0;
  std::vector<float> values;  // Of the requested blocks, one after another.
};

struct OuterDigest {
  int64_t version = 0;
  Digest128 digest;
};

// What Recover did, for the log of the service.
struct RecoveryReport {
  int64_t commits_replayed = 0;
  int64_t log_frames = 0;
  int64_t torn_bytes_dropped = 0;  // Behind the last whole frame.
  int64_t snapshots_rejected =
      0;  // Damaged: the disk deserves a look. The generation before was used.
};

class JobStore {
 public:
  // Makes the store of a new job; `fs` outlives it. It has its name only when it is whole: after an
  // error or a crash there is none, what was begun is removed or is in the way of nothing, and the
  // call may be repeated. ALREADY_EXISTS: there is one. INVALID_ARGUMENT: the options. DATA_LOSS:
  // there are files of a store without a manifest.
  // `apply_threads`, here and below: that share the tiles of a round; what it makes does not depend
  // on them.
  static absl::StatusOr<std::unique_ptr<JobStore>> Create(FileSystem* fs, const std::string& dir,
                                                          const JobManifest& manifest,
                                                          int apply_threads = TileThreads());
  // Opens what is there. Every commit that was acknowledged is there again; of the parts of rounds
  // without a commit, those that the log still holds whole. No error is fatal, nothing was changed
  // after one, and each names the file, and the offset where there is one. NOT_FOUND: there is no
  // folder. DATA_LOSS: something is missing, or damaged below what is known to be durable.
  // FAILED_PRECONDITION: written in another format or by another version of the arithmetic.
  static absl::StatusOr<std::unique_ptr<JobStore>> Recover(FileSystem* fs, const std::string& dir,
                                                           int apply_threads = TileThreads());
  ~JobStore();

  const JobManifest& manifest() const { return manifest_; }
  const JobStoreOptions& options() const { return manifest_.options; }
  const RecoveryReport& recovery() const { return recovery_; }

  // Appends a part, whose payload may lie in pieces and whose segments SegmentChecker accepted.
  // Not durable until the commit that names it. FAILED_PRECONDITION: `part.version` is not the
  // next of the fragment. INVALID_ARGUMENT: malformed.
  // The caller keeps what is returned: the store has no list of the parts. Valid until the round is
  // committed.
  absl::StatusOr<StoredPart> AppendPart(const PartInfo& part, Log::Pieces payload);

  // After Recover, once: the parts of rounds that are not committed, in the order in which they
  // were appended. Empty afterwards.
  std::vector<StoredPart> TakePending();

  // Performs a round and returns when it is durable; then it may be published. FAILED_PRECONDITION:
  // the version is not the next. INVALID_ARGUMENT: the contributions do not hold every block once,
  // a weight, a part of another round.
  absl::StatusOr<CommitRecord> Apply(const RoundInput& round);

  // Committed version of a fragment: -1 before the seed. Never waits for an Apply.
  absl::StatusOr<int64_t> Version(int fragment) const;
  // The newest commit. FAILED_PRECONDITION: not seeded. Never waits for an Apply.
  absl::StatusOr<CommitRecord> LastCommit(int fragment) const;

  // Exactly these blocks (disjoint, ascending) of the downlink that made `version`.
  // FAILED_PRECONDITION: it is not the newest, or it has none (seed, skipped). INVALID_ARGUMENT: a
  // range is not within the fragment.
  absl::StatusOr<DownlinkBlocks> ReadDownlink(int fragment, int64_t version,
                                              absl::Span<const BlockRange> blocks) const;
  // A copy of the outer parameters of these blocks. FAILED_PRECONDITION: not seeded.
  // INVALID_ARGUMENT: as above.
  absl::StatusOr<OuterBlocks> ReadOuter(int fragment, absl::Span<const BlockRange> blocks) const;
  // Digest of the bytes that ReadOuter would give. The whole fragment costs nothing.
  absl::StatusOr<OuterDigest> DigestOuter(int fragment, absl::Span<const BlockRange> blocks) const;

  // Writes the snapshots that are due, removes files of the log that no recovery needs. For a
  // background thread; one call at a time works, others wait. An error that is not fatal leaves
  // earlier snapshots and the log as they are.
  absl::Status MaybeSnapshot();

  // The job ended: gives back the space that was made ready for its next rounds.
  absl::Status Retire();

  // Writes a checkpoint of one cut through all fragments, without holding off anybody: fragments
  // that went on meanwhile are made again from a snapshot and the log, one at a time (12 bytes an
  // element of the fragment, by one thread). Removes the oldest beyond options().checkpoints_keep, but
  // for the steps that `in_use`, asked then, names. The caller fills job_id, job_name, step, final,
  // created_at, tensors, and what it likes; the result has the rest.
  // FAILED_PRECONDITION: a fragment is not seeded.
  // `version`: of every fragment, though some are beyond it already; those whose log does not reach
  // back so far are as they are.
  absl::StatusOr<v1::CheckpointManifest> WriteCheckpoint(
      v1::CheckpointManifest manifest, std::optional<int64_t> version = std::nullopt,
      const std::function<std::set<int64_t>()>& in_use = nullptr);

 private:
  struct Fragment {
    explicit Fragment(int64_t elements) : state(elements) {}
    mutable absl::Mutex mutex;
    FragmentState state ABSL_GUARDED_BY(mutex);
    DownlinkIndex downlink ABSL_GUARDED_BY(mutex);  // Of state.version; empty if it has none.
    CommitRecord committed;                         // Guarded by JobStore::mutex_.
    // Kept ones, oldest first. Guarded by JobStore::files_mutex_.
    std::vector<SnapshotFile> snapshots;
  };

  JobStore(FileSystem* fs, std::string dir, JobManifest manifest, OuterRules rules,
           int apply_threads);
  static absl::StatusOr<std::unique_ptr<JobStore>> Make(FileSystem* fs, const std::string& dir,
                                                        const JobManifest& manifest,
                                                        int apply_threads);
  absl::StatusOr<Fragment*> FindFragment(int fragment) const;

  // Apply, in parts.
  absl::StatusOr<CommitRecord> Perform(LoggedCommit commit, const ContributionReader& contributions,
                                       Log::Reservation& reservation, Fragment& fragment)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(fragment.mutex);
  void Publish(const CommitRecord& record, std::shared_ptr<const DownlinkBytes> downlink,
               Fragment& fragment);
  // Memory for the downlink of the next commit: that of the newest one if nobody reads it.
  std::shared_ptr<DownlinkBytes> TakeDownlinkBytes(RoundKind kind, int64_t elements);

  // Recover, in parts. Nobody else has the store yet, so they take no locks.
  absl::Status Load() ABSL_NO_THREAD_SAFETY_ANALYSIS;
  absl::Status LoadSnapshots(SnapshotList* list) ABSL_NO_THREAD_SAFETY_ANALYSIS;
  absl::Status ReplayAll(const std::vector<LogFrame>& frames) ABSL_NO_THREAD_SAFETY_ANALYSIS;
  absl::Status ReplayCommit(const LogFrame& frame, const LoggedCommit& commit,
                            const Replay& replay) ABSL_NO_THREAD_SAFETY_ANALYSIS;

  // A version of every fragment, and what is needed to make it again.
  struct Cut {
    std::vector<int64_t> versions;                       // By fragment.
    std::vector<std::optional<SnapshotFile>> snapshots;  // Likewise: the newest that is not newer.
    std::vector<std::shared_ptr<const File>> files;      // Of the snapshots, open.
    uint64_t log_end = 0;                                // Every commit has a smaller sequence.
    std::optional<Log::Pin> pin;
  };
  // Of the newest versions, or of `version` where a fragment is beyond it and can still be made.
  absl::StatusOr<Cut> TakeCut(std::optional<int64_t> version);
  // The state of a fragment at the cut: copied if it is still there, made again otherwise.
  absl::StatusOr<FloatArray> ParametersAt(const Cut& cut, int fragment);
  absl::StatusOr<FloatArray> RebuildParameters(const Cut& cut, int fragment) const;
  absl::Status WriteDueSnapshot(int index) ABSL_EXCLUSIVE_LOCKS_REQUIRED(snapshot_mutex_);

  FileSystem* const fs_;
  const std::string dir_;
  const JobManifest manifest_;
  const OuterRules rules_;
  const int apply_threads_;
  RecoveryReport recovery_;
  std::unique_ptr<Log> log_;  // Set before anybody else has the store.
  std::vector<std::unique_ptr<Fragment>> fragments_;
  uint64_t durable_upto_ = 0;  // What the snapshots show at recovery.
  // In the order of taking: these, a fragment's mutex, mutex_.
  absl::Mutex snapshot_mutex_, checkpoint_mutex_;  // Each held by one writer.
  absl::Mutex files_mutex_;  // Held while the lists of snapshots change, and their files' names.
  mutable absl::Mutex mutex_;
  std::vector<StoredPart> pending_ ABSL_GUARDED_BY(mutex_);  // For TakePending.
  // The newest commit that has a downlink.
  struct NewestDownlink {
    int fragment = -1;
    int64_t version = -1;
    std::shared_ptr<const DownlinkBytes> bytes;
  };
  NewestDownlink newest_downlink_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace longhaul

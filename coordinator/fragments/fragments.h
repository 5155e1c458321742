// The fragments of all jobs: intake, store, rounds and pulls of their bytes. Knows what bytes a job
// has and where; whose they may be and when a round is due is decided elsewhere (Arbiter). It is
// spoken to by a handful of messages: Open, Apply, Checkpoint, Close; and asks back by two: Judge
// and Complete.
//
//   push   header -> Judge -> chunks -> verified, logged -> whole -> Complete
//   Apply  logged contributions -> outer step -> one record, one sync -> the newest version
//   pull   blocks of the newest version, or of its downlink
//
// Thread-safe. Messages do not block: their work runs on the runners, `done` is called there, once.
// A fatal error of a job's store is told to the arbiter, and to the message that met it; it
// concerns that job alone.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "common/base/task_runner.h"
#include "common/io/filesystem.h"
#include "common/logging/logging.h"
#include "common/rpc/fragment_server.h"
#include "coordinator/fragments/arbiter.h"
#include "coordinator/fragments/job_fragments.h"
#include "coordinator/fragments/metrics.h"
#include "longhaul/v1/checkpoint.pb.h"
#include "longhaul/v1/sync.pb.h"

namespace longhaul::coordinator {

// What a job's store holds of one fragment.
struct OpenedFragment {
  int64_t version = -1;
  // Of that version. Nothing: not seeded.
  std::optional<CommitRecord> commit;
  // Whose whole contribution to version + 1 is in the log.
  std::vector<ContributionKey> contributors;
};
struct OpenedStore {
  std::vector<OpenedFragment> fragments;
  RecoveryReport recovery;
};

// Whose contribution a seed from a checkpoint is, in the log and in the commit. No pool has this
// name.
inline constexpr char kCheckpointPool[] = "@checkpoint";

struct Round {
  int fragment = 0;
  // That the round makes.
  int64_t version = 0;
  RoundKind kind = RoundKind::kOuter;
  // Whole ones, in the order of the sum. None, for a seed: the checkpoint that the job begins with.
  struct Contributor {
    std::string pool, incarnation;
  };
  std::vector<Contributor> contributors;
  // Kept in the commit.
  std::string evaluator;
};

class Fragments {
 public:
  struct Options {
    // Each job has a folder under <data_dir>/jobs.
    std::string data_dir;
    // Threads that share the tiles of a round. 0: the store's default.
    int tile_threads = 0;
  };
  // They outlive the object; `apply` and `background` have run everything when it ends.
  struct Parts {
    FileSystem* fs = nullptr;
    Arbiter* arbiter = nullptr;
    TaskRunner* apply = nullptr;
    TaskRunner* background = nullptr;
    FragmentMetrics* metrics = nullptr;
    const Logger* log = nullptr;
  };
  template <typename T>
  using Done = absl::AnyInvocable<void(absl::StatusOr<T>)>;

  Fragments(Options options, const Parts& parts);

  // --- Messages. UNAVAILABLE, to any: too much waits; RESOURCE_EXHAUSTED: the disk is full; both
  // may be repeated. NOT_FOUND: the job is not here.

  // Makes the job known to streams; its store is opened later.
  void Add(std::shared_ptr<JobFragments> job);
  // Opens the store: recovers what is there, which takes as long as the rounds since the last
  // snapshots take to be applied again. `create`: if it was never made, it is made now. Others:
  // those of JobStore.
  void Open(const std::string& job, bool create, Done<OpenedStore> done);
  // Performs a round; OK: it is durable.
  void Apply(const std::string& job, Round round, Done<CommitRecord> done);
  // Of the newest versions, or of `version`: JobStore::WriteCheckpoint. The manifest has job_id,
  // job_name, step, final, created_at and tensors.
  void Checkpoint(const std::string& job, v1::CheckpointManifest manifest,
                  std::optional<int64_t> version, Done<v1::CheckpointManifest> done);
  // The job has ended: gives back the disk space that was made ready for its next rounds.
  void Retire(const std::string& job);
  // Forgets the job: later streams are refused, those in flight end by themselves.
  void Close(const std::string& job);
  // Removes the files of a job that was closed.
  void Remove(const std::string& job, absl::AnyInvocable<void(absl::Status)> done);

  // --- Checkpoints that other jobs begin with.

  // FAILED_PRECONDITION: the folder of the checkpoint that the job begins with is not there. One look
  // at the disk.
  absl::Status CheckInitial(const JobFragments& job) const;
  // While it is pinned, as often as it is, a checkpoint is not removed to make room for newer ones.
  void Pin(const std::string& job, int64_t step);
  void Unpin(const std::string& job, int64_t step);

  // --- Bulk streams.

  // The handlers of one stream, with its counters. Blocks that are here already are left out.
  //   before any chunk:
  //   NOT_FOUND            JOB_UNKNOWN, FRAGMENT_UNKNOWN
  //   INVALID_ARGUMENT     malformed kind, weight; CODEC_MISMATCH
  //   FAILED_PRECONDITION, ABORTED   the arbiter's refusals
  //   UNAVAILABLE          the job's store is being opened
  //   later, besides the arbiter's refusals:
  //   INVALID_ARGUMENT     BAD_SEGMENT with fragment and block: NaN, Inf, padding, exponent
  //   RESOURCE_EXHAUSTED   the disk is full (RetryInfo)
  PushHandler MakePushHandler();
  PullHandler MakePullHandler();
  // What is here of a contribution. A whole one is told to the arbiter (again), so that `complete`
  // says that it counts. Blocks. Errors as before a push.
  absl::StatusOr<v1::GetContributionResponse> FindContribution(
      const v1::GetContributionRequest& request);

  // --- For reports.

  // Null: not here.
  std::shared_ptr<JobFragments> Find(absl::string_view job) const;
  std::string JobDir(absl::string_view job) const;
  const Parts& parts() const { return parts_; }
  // RESOURCE_EXHAUSTED: contributions of some job cannot be logged for want of disk space.
  absl::Status Health() const;
  // Tells the arbiter of a fatal error, once for each job.
  void Note(JobFragments& job, const absl::Status& status);

 private:
  absl::StatusOr<OpenedStore> OpenNow(JobFragments& job, bool create);
  void SnapshotLater(const std::shared_ptr<JobFragments>& job);
  std::set<int64_t> Pinned(const std::string& job) const;
  // seeding.cc: brings the blocks of a fragment from the initial checkpoint to the log.
  absl::Status LogSeed(JobFragments& job, int fragment);
  std::string InitialFolder(const InitialCheckpoint& initial) const;

  const Options options_;
  const Parts parts_;
  mutable absl::Mutex mutex_;
  std::map<std::string, std::shared_ptr<JobFragments>, std::less<>> jobs_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, std::multiset<int64_t>> pinned_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace longhaul::coordinator

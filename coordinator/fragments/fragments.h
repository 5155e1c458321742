// The fragments of all jobs: receives contributions, stores them, performs rounds, and answers
// pulls. It knows the bytes of a job. An Arbiter decides which contributions are accepted, and the
// coordinator's core decides when a round is due. It takes a few messages (Open, Apply, Checkpoint,
// Close) and asks the arbiter two questions (Judge, Complete).
//
//   push   header -> Judge -> chunks -> verified, logged -> whole -> Complete
//   Apply  logged contributions -> outer step -> one record, one sync -> the newest version
//   pull   blocks of the newest version, or of its downlink
//
// Thread-safe. Messages do not block: their work runs on the runners, and `done` is called there,
// once. A fatal error of a job's store is reported to the arbiter, and to the message that met it.
// It concerns only that job.
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
#include "absl/time/time.h"
#include "common/base/task_runner.h"
#include "common/io/filesystem.h"
#include "common/logging/logging.h"
#include "common/rpc/fragment_server.h"
#include "coordinator/fragments/arbiter.h"
#include "coordinator/fragments/checkpoint_holds.h"
#include "coordinator/fragments/job_fragments.h"
#include "coordinator/fragments/metrics.h"
#include "coordinator/store/job_state_file.h"
#include "longhaul/v1/checkpoint.pb.h"
#include "longhaul/v1/sync.pb.h"

namespace longhaul::coordinator {

// What a job's store holds of one fragment.
struct OpenedFragment {
  int64_t version = -1;
  // The commit of that version. Empty if not seeded.
  std::optional<CommitRecord> commit;
  // The pools whose complete contribution to version + 1 is in the log.
  std::vector<ContributionKey> contributors;
};
struct StoreContents {
  std::vector<OpenedFragment> fragments;
  RecoveryReport recovery;
};

// The name under which the seed from a checkpoint contributes, in the log and in the commit. No
// pool has this name.
inline constexpr char kCheckpointPool[] = "@checkpoint";

// Whether a round or Open failed because the checkpoint or folder that the job begins with cannot
// be used: it is damaged or malformed, or has a value that is not finite or beyond 2^64.
bool IsBadSeed(const absl::Status& status);

// A round that the core decided, as RoundInput before the parts of its contributions are found.
struct RoundOrder {
  RoundId round;
  // The contributors, whose contributions are complete, in the order of the sum. For a seed it may
  // be empty: then the job begins with a checkpoint.
  struct Contributor {
    std::string pool, incarnation;
  };
  std::vector<Contributor> contributors;
  // Kept in the commit.
  std::string evaluator;
  absl::Time due = absl::InfinitePast();
  OuterNote outer = {};
};

class Fragments {
 public:
  struct Options {
    // Each job has a folder under <data_dir>/jobs.
    std::string data_dir;
    // How many threads share the tiles of a round. 0: the store's default.
    int tile_threads = 0;
  };
  // All outlive the object. The runners have run all their tasks before the object ends. `opening`
  // opens stores, so that a new job does not wait for the checkpoints of others in `background`.
  // Likewise `snapshots`, since logs grow until there are new ones. Null: `background`.
  struct Parts {
    FileSystem* fs = nullptr;
    Arbiter* arbiter = nullptr;
    TaskRunner* apply = nullptr;
    TaskRunner* opening = nullptr;
    TaskRunner* background = nullptr;
    TaskRunner* snapshots = nullptr;
    FragmentMetrics* metrics = nullptr;
    const Logger* log = nullptr;
  };
  template <typename T>
  using Done = absl::AnyInvocable<void(absl::StatusOr<T>)>;

  Fragments(Options options, const Parts& parts);

  // --- Messages. Each may end with UNAVAILABLE (too many tasks wait) or RESOURCE_EXHAUSTED (the
  // disk is full); both may be repeated. NOT_FOUND: the job is not known here.

  // Makes the job known to streams; its store is opened later.
  void Add(std::shared_ptr<JobFragments> job);
  // Opens the store, which is closed, and recovers it. This takes as long as applying the rounds
  // since the last snapshots again. `create`: makes the store if it was never made. Other errors:
  // those of JobStore, and IsBadSeed.
  void Open(const std::string& job, bool create, Done<StoreContents> done);
  // Performs a round. OK: it is durable. Other errors: those of JobStore, and IsBadSeed. After
  // DamagedPartOf the contribution that it names is no longer complete: its pool may push what is
  // missing.
  void Apply(const std::string& job, RoundOrder order, Done<CommitRecord> done);
  // Measures the contributions to a round that is applied later, in their order. Errors as Apply.
  void Measure(const std::string& job, RoundOrder order, Done<std::vector<OuterMeasure>> done);
  // Writes a checkpoint of these versions (JobStore::WriteCheckpoint). The manifest has job_id,
  // job_name, step, final, created_at and tensors.
  void Checkpoint(const std::string& job, v1::CheckpointManifest manifest,
                  std::vector<int64_t> versions, Done<v1::CheckpointManifest> done);
  // Notes in the job's folder what --adopt would go by (job_state_file.h). Call it after the
  // database has the same, and at an end before DropLog; of several notes of a job the last one
  // counts. If it cannot be written, the log says so, and the one before stays.
  void NoteState(const std::string& job, JobStateNote note);
  // The job has ended: gives back the disk space that was prepared for later rounds.
  void Retire(const std::string& job);
  // Closes the store. Later streams are refused, and those in progress end. `done` is called on any
  // thread once the last of them, and the last work, has ended: then the memory is free, and no
  // file changes any more.
  void Close(const std::string& job, absl::AnyInvocable<void()> done);
  // Removes log and snapshots of a job that has ended (RemoveJobLog), or all its files. Its store
  // is closed, and no other work on the job is in progress.
  void DropLog(const std::string& job, Done<bool> done);
  void Remove(const std::string& job, absl::AnyInvocable<void(absl::Status)> done);
  // Nothing of the job stays in memory. Its store is closed.
  void Forget(const std::string& job);

  // --- Checkpoints that are read.

  // FAILED_PRECONDITION: the checkpoint or upload that the job begins with does not exist. Looks at
  // the data folder once. A folder of the user's is not looked at. Other errors: those of the file
  // system.
  absl::Status CheckInitial(const JobFragments& job) const;
  // While the result lives, and a minute longer, this checkpoint is not removed to make room for
  // newer ones. (Nor are those with which jobs begin: the arbiter names them.)
  std::shared_ptr<const void> HoldCheckpoint(const std::string& job, int64_t step);

  // --- Bulk streams.

  // The handlers of one stream, with its counters. Blocks that have arrived already are skipped.
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
  // What has arrived of a contribution. A complete one is reported to the arbiter (again), so that
  // `complete` means that it counts. Blocks. Errors as before a push.
  absl::StatusOr<v1::GetContributionResponse> FindContribution(
      const v1::GetContributionRequest& request);

  // In seeding.cc: the answer of GetTokenizer. Blocks on the disk. NOT_FOUND: there is no such job
  // or file, or the job keeps no tokenizer. Other errors: those of kept_tokenizer.h.
  absl::StatusOr<v1::GetTokenizerResponse> FindTokenizer(
      const v1::GetTokenizerRequest& request) const;

  // --- For reports.

  // Null if the job is not known here.
  std::shared_ptr<JobFragments> Find(absl::string_view job) const;
  std::string JobDir(absl::string_view job) const;
  const Parts& parts() const { return parts_; }
  // RESOURCE_EXHAUSTED: the store of some job cannot be opened, contributions to it not be logged,
  // a round of it not be applied, or its final checkpoint not be written, since the disk is full
  // or does not answer.
  absl::Status Health() const;
  // Reports a fatal error to the arbiter, once for each job.
  void Note(JobFragments& job, const absl::Status& status);

 private:
  // The works of the messages. They block.
  absl::StatusOr<StoreContents> OpenNow(JobFragments& job, bool create);
  absl::StatusOr<CommitRecord> ApplyNow(const std::shared_ptr<JobFragments>& job,
                                        const std::shared_ptr<SharedStore>& store,
                                        const RoundOrder& order);
  absl::StatusOr<std::vector<OuterMeasure>> MeasureNow(const std::shared_ptr<SharedStore>& store,
                                                       const RoundOrder& order);
  // The contributions as they arrived.
  static RoundInput InputOf(SharedStore& store, const RoundOrder& order);
  // Returns why a round failed. If a part is damaged, its blocks have not arrived from here on.
  static absl::Status Withdraw(SharedStore& store, const absl::Status& failed);
  void SnapshotLater(const std::shared_ptr<JobFragments>& job,
                     const std::shared_ptr<SharedStore>& store);
  // The steps of checkpoints that must stay.
  std::set<int64_t> InUse(const std::string& job);
  // In seeding.cc: writes the blocks of a fragment from the initial checkpoint to the log, verified
  // like those of a pool.
  absl::Status LogSeed(const std::shared_ptr<JobFragments>& job,
                       const std::shared_ptr<SharedStore>& store, int fragment);
  // IsBadSeed: the parameters are not finite. Earlier versions of the program took such seeds.
  static absl::Status CheckFinite(const CommitRecord& commit);
  std::string InitialFolder(const InitialCheckpoint& initial) const;

  const Options options_;
  const Parts parts_;
  mutable absl::Mutex mutex_;
  std::map<std::string, std::shared_ptr<JobFragments>, std::less<>> jobs_ ABSL_GUARDED_BY(mutex_);
  CheckpointHolds holds_;
  // By job: notes that wait to be written.
  std::map<std::string, JobStateNote> notes_ ABSL_GUARDED_BY(mutex_);
  // Held while one is written, before mutex_.
  absl::Mutex note_mutex_;
};

}  // namespace longhaul::coordinator

// The shell around the coordinator's core: steps it with what the services tell, performs what it
// decides, keeps the durable state and the data plane of every live job.
//
//   services --Post--> owner thread: Step -> core -> actions, performed in their order:
//     Persist*         to the MetaStore, durable before the next action
//     ApplyRound       to the apply threads: JobStore::Apply, then RoundApplied comes back to the
//                      owner thread
//     PublishCommit    to the WatchPlan streams of the job
//     WriteCheckpoint  and snapshots: to the background thread; what follows a final checkpoint
//                      waits for it
//   bulk streams --Judge, Complete--> owner thread; their bytes go from gRPC to the bulk threads to
//   the JobStore
//
// No lock is held across disk or network, but for those inside the stores. A fatal error of a store
// halts the runtime: nothing is published after it and on_fatal is called, once, to end the
// process.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/io/filesystem.h"
#include "common/logging/logging.h"
#include "common/rpc/executor.h"
#include "common/rpc/fragment_server.h"
#include "coordinator/core/coordinator.h"
#include "coordinator/service/coordinator_metrics.h"
#include "coordinator/service/job_watchers.h"
#include "coordinator/service/live_jobs.h"
#include "coordinator/service/owner_thread.h"
#include "coordinator/service/plan_streams.h"
#include "coordinator/service/recovery.h"
#include "coordinator/store/meta_store.h"

namespace longhaul::coordinator {

struct RuntimeOptions {
  CoordinatorOptions core;
  std::string data_dir;  // Exists.
  int apply_threads = 2;
  int bulk_threads = 64;  // One for each stream that is admitted: none waits for another.
  absl::Duration linger =
      absl::Minutes(1);  // An ended job's last commits can be pulled for so long.
  std::function<void(const absl::Status&)>
      on_fatal;  // Required. Any thread; must not block on the runtime.
};

// They outlive the runtime.
struct RuntimeParts {
  FileSystem* fs = nullptr;
  Clock* clock = nullptr;
  MetaStore* meta = nullptr;
  CoordinatorMetrics* metrics = nullptr;
  const Logger* log = nullptr;
};

// What a Step answers: the monostate when it was neither refused nor answered with something.
using Answer = std::variant<std::monostate, Refuse, GrantLease, AdmitRank>;

class Runtime {
 public:
  Runtime(RuntimeOptions options, const RuntimeParts& parts, RecoveredState recovered);
  // Stop.
  ~Runtime();

  // --- Any thread.

  // Work for the owner thread. False: too much waits (Overloaded says so to a client).
  [[nodiscard]] bool Post(OwnerThread::Task task) { return owner_.Post(std::move(task)); }
  static absl::Status Overloaded();
  // Whether this contribution would be accepted.
  absl::Status Judge(const ContributionBegins& event);
  // Tells the core of a whole contribution. Blocks until the answer is durable; not from the owner
  // thread.
  absl::Status Complete(const ContributionComplete& event);
  // For reading files without holding up the owner thread. False: too much waits.
  [[nodiscard]] bool RunBeside(Executor::Task task) { return bulk_->Submit(std::move(task)); }
  // Takes note of an error of a store: a fatal one halts the runtime.
  void Note(const absl::Status& status);
  bool halted() const { return halted_; }

  const LiveJobs& jobs() const { return jobs_; }
  BulkResources bulk() { return {.executor = bulk_.get(), .admission = &admission_}; }
  const RuntimeParts& parts() const { return parts_; }
  std::string JobDir(const std::string& id) const;

  // --- Owner thread.

  absl::Time now() const { return owner_.now(); }
  // Tells the core; `answer` is called once, before Step returns: at its place among the actions,
  // or after them.
  void Step(const Event& event, absl::FunctionRef<void(const Answer&)> answer);
  void Step(const Event& event);
  // Takes a job that was stored just now into service.
  void Admit(std::shared_ptr<LiveJob> job);
  // A stored job as it is now. The record is that of the store.
  v1::Job Report(const JobRecord& record) const;
  // The answer to AdmitRank.
  v1::PlanEvent PlanFor(const AdmitRank& rank) const;
  std::vector<PoolView> pools() const;
  PlanStreams& plan_streams() { return plan_streams_; }
  JobWatchers& watchers() { return watchers_; }

  // --- Its end.

  // Ends all WatchPlan and WatchJob streams, also later ones. Blocks.
  void EndStreams(const absl::Status& status);
  // Counters are saved, rounds under way are finished, nothing more is decided. Requires that no
  // stream and no call is in flight. Blocks. Later calls return at once.
  void Stop();

 private:
  using Answering = absl::FunctionRef<void(const Answer&)>;

  // runtime_actions.cc: what the core decided.
  void Perform(std::vector<Action> actions, size_t next, Answering answer);
  void On(const PersistJobState& action);
  void On(const PersistParticipant& action);
  void On(const PersistParticipantLeft& action);
  void On(const RequestSeed& action);
  void On(const ApplyRound& action);
  void On(const PublishCommit& action);
  void On(const WriteCheckpoint& action);
  void On(const EndJob& action);
  void On(const ReleasePool& action);
  // Persistence that the core counts on: it went on already, so a failure halts.
  void Require(const absl::Status& status, absl::string_view what);
  void PutParticipant(LiveJob& job, ParticipantRecord participant);
  void CountState(int before, int after);
  void Fail(const std::string& job, const absl::Status& status, absl::string_view what);

  // runtime_rounds.cc: the data plane, in other threads.
  void OpenStore(LiveJob& job);
  void Apply(std::shared_ptr<LiveJob> job, RoundInput round);
  void Applied(const std::shared_ptr<LiveJob>& job, RoundInput round,
               absl::StatusOr<CommitRecord> commit);
  void Snapshot(const std::shared_ptr<LiveJob>& job);
  v1::CheckpointManifest ManifestFor(const LiveJob& job, const WriteCheckpoint& action) const;
  void CheckpointThen(const WriteCheckpoint& action, OwnerThread::Task then);
  void SaveCounters(LiveJob& job);

  void Tick();
  void ShowGauges();
  void RetryLater(absl::string_view what, const absl::Status& status, OwnerThread::Task task);

  const RuntimeOptions options_;
  const RuntimeParts parts_;
  std::atomic<bool> halted_ = false;
  LiveJobs jobs_;
  StreamAdmission admission_{{}};

  mutable absl::Mutex core_mutex_;
  Coordinator core_ ABSL_GUARDED_BY(core_mutex_);
  absl::Time core_now_ ABSL_GUARDED_BY(core_mutex_);

  // Owner thread.
  PlanStreams plan_streams_;
  JobWatchers watchers_;
  std::vector<int> jobs_by_state_;          // By number of v1::JobState.
  std::vector<OwnerThread::Task> retries_;  // At the next second: the disk was full.
  int64_t ticks_ = 0;

  std::unique_ptr<Executor> apply_, background_, bulk_;
  OwnerThread owner_;  // Last: it runs from here on.
};

}  // namespace longhaul::coordinator

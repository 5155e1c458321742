// Performs what the coordinator's core decides. This is the only place where decisions take effect,
// in the service and in the simulation.
//
//   Step: event -> core -> decision, and for each decision, in the order of the Steps:
//     records   to the MetaLog, in one transaction
//     answer    to the sender of the event
//     notices   to the Publisher
//     works     to the Fragments; each ends in another Step
//
// When the disk is full the decisions wait, in their order, until their records can be written.
// Before that nothing is said about them. Meanwhile the core continues, so that leases hold. For a
// command that frees space (cancel, pause, delete) the ballast is given up first.
//
// Owner thread, except where marked. A fatal error of the MetaLog halts the performer: nothing
// takes effect after it, and on_fatal is called once.
#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/base/task_runner.h"
#include "common/config/job_spec.h"
#include "common/logging/logging.h"
#include "coordinator/core/coordinator.h"
#include "coordinator/effects/control_plane.h"
#include "coordinator/effects/job_tracks.h"
#include "coordinator/effects/live_job.h"
#include "coordinator/effects/metrics.h"
#include "coordinator/effects/publisher.h"
#include "coordinator/effects/recovery.h"
#include "coordinator/fragments/fragments.h"
#include "coordinator/store/ballast.h"
#include "coordinator/store/damaged_part.h"
#include "coordinator/store/meta_store.h"

namespace longhaul::coordinator {

struct PerformerOptions {
  CoordinatorOptions core;
  // A job is deleted when it was kept for so long after its end, as by Delete.
  absl::Duration ended_job_keep = absl::InfiniteDuration();
  // Gets the id of each job that is deleted for that. May be empty.
  std::function<void(const std::string&)> on_expired;
  // Required. Called on any thread; must not block on the performer.
  std::function<void(const absl::Status&)> on_fatal;
};

// They outlive the performer.
struct PerformerParts {
  // For reading. Writes go through `records`, which may be the same object.
  MetaStore* meta = nullptr;
  MetaLog* records = nullptr;
  Fragments* fragments = nullptr;
  Publisher* publisher = nullptr;
  // Runs tasks on the owner thread.
  TaskRunner* owner = nullptr;
  // The owner thread's time, which never goes backwards.
  std::function<absl::Time()> now;
  // Makes ids of jobs. Empty: ids are made from the time and a random number.
  std::function<std::string()> job_id = nullptr;
  EffectMetrics* metrics = nullptr;
  // Null: no curves are written.
  JobTracks* tracks = nullptr;
  // Null: there is none.
  Ballast* ballast = nullptr;
  const Logger* log = nullptr;
};

class Performer final : public ControlPlane {
 public:
  Performer(PerformerOptions options, PerformerParts parts, RecoveredState recovered);

  // Continues what a restart interrupted. Call once, before all other methods.
  void Start();
  void Step(const Event& event, OnAnswer on_answer);
  void Step(const Event& event);
  // Call at least once a second: handles deadlines, decisions that wait for the disk, counters, and
  // jobs that are deleted for their age.
  void PassTime();
  // From now on no decision waits for disk space, since the calls that it answers would hold up the
  // end of the program: if one does, the performer halts, without on_fatal. Nothing of what is
  // dropped was said.
  void GoDown();

  // --- ControlPlane.

  void Do(const Command& command, OnAnswer on_answer) override;
  absl::StatusOr<Submitted> Submit(ResolvedJob resolved, const std::string& token,
                                   const std::string& owner = "") override;
  void Delete(const std::string& name_or_id,
              absl::AnyInvocable<void(absl::StatusOr<Deleted>)> done) override;
  std::vector<v1::JobEvent> EventsAfter(const std::string& job, int64_t sequence) const override;
  std::shared_ptr<LiveJob> Find(absl::string_view id) const override;
  std::vector<std::shared_ptr<LiveJob>> All() const override;
  std::optional<JobView> View(const std::string& job) const override;
  std::optional<ParticipantView> Place(const std::string& job,
                                       const std::string& pool) const override;
  std::vector<PoolView> Pools(const std::string& after = "",
                              size_t count = std::numeric_limits<size_t>::max()) const override;
  absl::Time KeptUntil(const JobRecord& ended) const override;
  absl::Time now() const override { return parts_.now(); }
  MetaStore& meta() const override { return *parts_.meta; }
  Fragments& fragments() const override { return *parts_.fragments; }
  const Logger& log() const override { return *parts_.log; }
  JobTracks* tracks() const override { return parts_.tracks; }

  // The number of stored jobs.
  const std::map<JobState, int64_t>& jobs_by_state() const { return jobs_by_state_; }
  // Stores the counters of every live job if they changed, and now and then for how long this
  // program has run.
  void SaveCounters();

  // --- Any thread.

  absl::Status Judge(const ContributionId& contribution) const;
  absl::Status CheckPlace(const std::string& job, const std::string& pool,
                          const std::string& incarnation) const;
  // As Coordinator::InitialSteps and InitialUploads.
  std::set<int64_t> InitialSteps(const std::string& job) const;
  std::set<std::string> InitialUploads() const;
  // OK; RESOURCE_EXHAUSTED: decisions wait for the disk; UNAVAILABLE: halted.
  absl::Status health() const;
  // Takes note of an error of the metadata. A fatal one halts the performer.
  void Note(const absl::Status& status);

 private:
  struct Pending {
    Decision decision;
    OnAnswer on_answer;
  };

  void Drain();
  bool MakeDurable(const Decision& decision);
  std::string NewJobId() const;
  std::vector<MetaRecord> RecordsOf(const Decision& decision);
  // In the folders of jobs, for --adopt.
  void NoteStates(const std::vector<MetaRecord>& records);
  void TakeOver(const Record& record);
  void TakeOver(const StoreDeleted& deleted);
  void TakeOver(LiveJob& job, const StoreNewJob& record);
  void TakeOver(LiveJob& job, const StoreJobState& state);
  void TakeOver(LiveJob& job, const StorePlace& place);
  void TakeOver(LiveJob& job, const StorePause& pause);
  void TakeOver(LiveJob& job, const StoreEvaluation& evaluation);
  // Looks at how the job does, and tells what is new.
  void ObserveHealth(LiveJob& job);
  // In the events of a job that begins.
  void WarnOfPools(LiveJob& job);
  Logger LogOf(const LiveJob& job, const std::string& pool = "") const;
  // Logs what happened to a job, and adds it to its events.
  void Tell(LiveJob& job, v1::JobEvent event, LogLevel level = LogLevel::kInfo);

  // In performer_effects.cc.
  void Tell(const RequestSeed& notice);
  void Tell(const PublishCommit& notice);
  void Tell(const CallRound& notice);
  void Tell(const ReleasePool& notice);
  void Tell(const PoolPresence& notice);
  void Tell(const PoolFellBehind& notice);
  void Tell(const PoolLeftOut& notice);
  void Tell(const PoolSetAside& notice);
  void Tell(const EndJob& notice);
  void Tell(const LastCheckpointMissing& notice);
  void Tell(const ForgetJob& notice);
  void TrackEvaluations(const LiveJob& job);
  void Begin(const OpenStore& work);
  void Begin(const MeasureRound& work);
  void Begin(const ApplyRound& work);
  // Of MeasureRound or ApplyRound.
  template <typename RoundWork>
  void RoundFailed(const RoundWork& work, const absl::Status& why);
  void TellDamaged(const std::string& id, const DamagedPart& part, const absl::Status& status);
  void Begin(const WriteCheckpoint& work);
  void TellCheckpoint(LiveJob& job, int64_t step, const absl::Status& written);
  void Begin(const CloseStore& work);
  void Begin(const RemoveLog& work);
  void Begin(const RemoveFiles& work);
  // Makes a callback for a work: it passes the work's result to `then` on the owner thread.
  template <typename T>
  Fragments::Done<T> Ended(std::function<void(absl::StatusOr<T>)> then);

  // What the core needs to open the store of a job that ended before this start. Nothing: this
  // program cannot use it.
  std::optional<JobOptions> FindEnded(const std::string& id);
  // Takes a job out of the metrics.
  void Hide(const LiveJob& job);
  void DeleteExpired();
  // Makes room for what waits for the disk. Returns whether nothing waits any more.
  bool GiveUpBallast();
  void ShowGauges();
  bool full() const;
  absl::Duration run_time() const { return run_time_at_start_ + (now() - started_); }

  const PerformerOptions options_;
  const PerformerParts parts_;
  std::atomic<bool> halted_ = false;
  // Guards the core against const calls from other threads. Only the owner thread changes the core.
  mutable absl::Mutex mutex_;
  Coordinator core_ ABSL_GUARDED_BY(mutex_);
  // Set while decisions wait for disk space. Then every live job waits.
  std::optional<Waiting> full_ ABSL_GUARDED_BY(mutex_);

  std::map<std::string, std::shared_ptr<LiveJob>, std::less<>> jobs_;
  std::map<JobState, int64_t> jobs_by_state_;
  // Decisions that have not taken effect, the oldest first.
  std::deque<Pending> backlog_;
  bool draining_ = false;
  bool going_down_ = false;
  absl::Time last_second_ = absl::InfinitePast();
  absl::Time ballast_filled_ = absl::InfinitePast();
  const absl::Time started_;
  const absl::Duration run_time_at_start_;
  absl::Time run_time_saved_;
  // A store may be let go of after the performer has ended.
  const std::shared_ptr<const bool> alive_ = std::make_shared<const bool>(true);
};

}  // namespace longhaul::coordinator

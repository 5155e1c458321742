// The coordinator's core: every decision about jobs, pools and rounds, as a deterministic state
// machine. Step takes one event and returns what is to be done. It has no thread, socket, file,
// clock or randomness. Buffers never pass through it; they are named by fragment and version.
//
// It joins Membership (which pools are alive), placement (which pools get which job) and, for each
// job, its Exchange (its rounds). The same object runs in the service, in the transcripts
// (tests/scenarios), in the fault search (tests/simulation) and in the planner.
//
// Externally synchronised; const methods may run concurrently. `now` must not go backwards from one
// Step to the next. Step never blocks and never fails: it answers a forbidden request with Refuse.
// A step looks only at jobs that it concerns or that are due.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "common/base/return_within.h"
#include "coordinator/core/decision.h"
#include "coordinator/core/ended_jobs.h"
#include "coordinator/core/event.h"
#include "coordinator/core/job.h"
#include "coordinator/core/recovery.h"
#include "coordinator/core/view.h"
#include "coordinator/pool/membership.h"
#include "coordinator/pool/node_groups.h"
#include "coordinator/pool/placement.h"

namespace longhaul::coordinator {

struct CoordinatorOptions {
  // A pool that is silent for so long is lost.
  absl::Duration lease = absl::Seconds(10);
  // After so long the job completes without the final evaluation and without the pools' last
  // merges.
  absl::Duration finish = absl::Seconds(60);
  // How long after the first final evaluation the job waits for pools that have merged and only
  // evaluate. It has what it needs; within this time pools of the same speed come to their end.
  absl::Duration evaluate = absl::Seconds(5);
  // Instead of `finish` and `evaluate` where every pool evaluates the outer parameters: then no
  // evaluation repeats another.
  absl::Duration evaluate_all = absl::Minutes(10);
  // After so long a pool that was asked to stop is released from a job that is being paused.
  // Workers have a shorter limit of their own (--drain-seconds).
  absl::Duration stop = absl::Minutes(10);
  // The place of a pool that drained is kept at most so long.
  absl::Duration return_within = kReturnWithinMax;
  // How many pools may hold a lease at one time.
  int pools_max = 4096;
  // How many jobs may be there that have not ended. The service is made for some hundreds.
  int jobs_max = 1000;
  // The bytes that the states of all jobs may take at one time (JobOptions::memory).
  int64_t memory = std::numeric_limits<int64_t>::max();
};

class Coordinator {
 public:
  // Pools that had places before the restart get a lease of grace that begins at `now`.
  Coordinator(const CoordinatorOptions& options, const Recovery& recovery, absl::Time now);

  Decision Step(const Event& event, absl::Time now);

  // The refusal that this contribution would get, or nothing.
  std::optional<Refuse> Judge(const ContributionId& contribution) const;
  // The refusal that this incarnation gets when it reads the job's fragments, or nothing. It may
  // read if it has a place, even without a lease at the moment. If the job has ended, it may read
  // if it had a place and holds a lease.
  std::optional<Refuse> CheckReader(std::string_view job, std::string_view pool,
                                    std::string_view incarnation) const;

  // Empty if the job is unknown or has ended.
  std::optional<JobView> job(std::string_view id) const;
  // The pool's place in the job, or nothing.
  std::optional<ParticipantView> place(std::string_view job, std::string_view pool) const;
  // The steps of checkpoints of `job` with which jobs begin that are not seeded.
  std::set<int64_t> InitialSteps(std::string_view job) const;
  // The uploads with which jobs begin that are not seeded.
  std::set<std::string> InitialUploads() const;
  // By name: the first `count` whose names are greater than `after`.
  std::vector<PoolView> pools(std::string_view after = "",
                              size_t count = std::numeric_limits<size_t>::max()) const;
  // The same pools, counted.
  PoolCounts CountPools() const;

 private:
  // The place that a pool holds, with its presence: live, lost or away.
  struct HeldPlace {
    std::string job;
    int ordinal = 0;
  };

  // For maps that most steps read. No result depends on their order.
  struct NameHash {
    using is_transparent = void;
    size_t operator()(std::string_view name) const { return std::hash<std::string_view>()(name); }
  };
  template <typename T>
  using ByName = std::unordered_map<std::string, T, NameHash, std::equal_to<>>;

  void On(const SubmitJob& event);
  void On(const CancelJob& event);
  void On(const PauseJob& event);
  void On(const ResumeJob& event);
  void On(const AskCheckpoint& event);
  void On(const DeleteJob& event);
  void On(const JobsExpired& event);
  void On(const JoinPool& event);
  void On(const Heartbeat& event);
  void On(const LeavePool& event);
  void On(const RankReady& event);
  void On(const ContributionComplete& event);
  void On(const StoreOpened& event);
  void On(const RoundMeasured& event);
  void On(const RoundApplied& event);
  void On(const CheckpointWritten& event);
  void On(const OpenFailed& event);
  void On(const ApplyFailed& event);
  void On(const CheckpointFailed& event);
  void On(const StoreFailed& event);
  void On(const StoreClosed& event);
  void On(const LogRemoved& event) { ended_.On(event, now_, out_); }
  void On(const LogNeeded& event) { ended_.On(event, now_, out_); }
  void On(const LogRemovalFailed& event) { ended_.On(event, now_, out_); }
  void On(const FilesRemoved& event) { ended_.On(event, now_, out_); }
  void On(const RemoveFailed& event) { ended_.On(event, now_, out_); }
  void On(const Tick&) {}

  Job& AddJob(const std::string& id, const JobOptions& options, JobState state);
  void Recover(const RecoveredJob& recovered);

  // coordinator_jobs.cc: how jobs end, and how they wait for the coordinator's own disk.
  void MoveTo(Job& job, JobState state);
  void End(Job& job, JobState state);
  void Quarantine(Job& job, JobFault fault);
  // Its works may still use the store.
  void Close(Job& job);
  std::optional<Refuse> RoomRefusal(const std::string& owner) const;
  // Whether the work is not tried again. Then the job has failed, or is quarantined.
  bool IsFinal(Job& job, const WorkFault& fault);
  // A contribution is damaged: the round waits for others, without its pool.
  void Withdraw(Job& job, const ApplyFailed& event);
  void Block(Job& job, const std::string& what, Work work, absl::Duration delay = kRetryDelay);
  void BlockCheckpoint(Job& job, const std::string& what, WriteCheckpoint work);
  void Unblock(Job& job);
  void Retire();

  // coordinator_pause.cc: how jobs are paused.
  void SetPause(Job& job, PauseStage stage, const std::string& by = "",
                const std::string& reason = "");
  void BeginPause(Job& job, const std::string& by, const std::string& reason);
  void KeepPools(Job& job);
  // Releases the pools that have stopped, or need not be awaited. Returns whether there were any.
  bool ReleaseStopped(Job& job);
  // The checkpoint of a pause is written, or is left out.
  static void PauseCheckpointEnded(Job& job);
  void SettlePause(Job& job);
  std::optional<Waiting> WaitingToPause(const Job& job) const;

  // coordinator_guard.cc: what happens to a job that diverges.
  void Evaluated(Job& job, const Evaluation& evaluation, const std::string& pool);
  void Guard(Job& job);
  void FailDiverged(Job& job);
  static absl::Time GuardActsAt(const Job& job);

  // coordinator_rounds.cc: which contributions are left out of a round.
  // Of a round that is closed: what is to be done with it next.
  static Work WorkOf(const Job& job, int fragment);
  // Ordinals.
  static std::set<int> LeftOutOf(const Job& job, int fragment);
  // The round is committed.
  void TellLeftOut(Job& job, const RoundId& round);

  // coordinator_checkpoints.cc: when checkpoints are written; how jobs are deleted.
  void CheckpointDue(const Job& job, int64_t version);
  static bool IsLasting(const Job& job, int64_t step);
  // The versions of which a checkpoint is left to write, or none.
  static std::vector<int64_t> VersionsLeft(const Job& job);
  // Returns whether there is one.
  bool PauseCheckpoint(const Job& job);
  void ClearRequest(Job& job);
  // Whether the parameters with which the job begins are still needed.
  static bool AwaitsSeed(const Job& job);
  // The job that will begin with a checkpoint of this one, or null.
  const Job* BeginsWith(std::string_view job) const;
  void Delete(const DeleteJob& job, bool expired);

  // coordinator_nodes.cc: how nodes make up a pool.
  void JoinNode(const JoinPool& event);
  // Extends the leases of an agent and of its pool.
  absl::Status Renew(std::string_view pool, std::string_view incarnation);
  // The incarnation under which the ranks of this agent's pool work: the agent's own, or that of
  // the group of nodes, until it changes. Empty: there is no group.
  std::string_view GroupOf(std::string_view pool, std::string_view incarnation) const;
  void FollowGroup(const std::string& pool);
  void LosePool(const std::string& pool);
  void LoseReplaced(const std::string& pool, const std::string& incarnation);

  // coordinator_pools.cc: leases of pools, and their places in jobs.
  // Returns false if the pool was refused.
  bool Enter(const std::string& pool, const std::string& incarnation, PoolTraits traits);
  void ExpireLeases();
  void LosePlace(const std::string& pool);
  bool RefuseReturn(const std::string& pool, const std::string& incarnation);
  void TakeBack(const std::string& pool, const std::string& incarnation);
  void Seat(Job& job, const std::string& pool, const std::string& incarnation);
  void Drop(Job& job, Participant& participant, Presence presence, absl::Status why = {});
  // The pool gives up its place in the job. A live one is free for other jobs, behind those that
  // wait already.
  void Release(Job& job, Participant& participant, absl::Status why);
  void ReleaseAll(Job& job, const absl::Status& why);
  void Report(const Heartbeat& event, Job& job, Participant& participant);
  void SetPoolAside(Job& job, Participant& participant, const JobFault& fault);
  void FailIfEveryPoolFails(Job& job);
  void Persist(const Job& job, const Participant& participant);
  // The pool's place, and its job. Null if it has none.
  Participant* PlaceOf(std::string_view pool, Job** job = nullptr) const;
  GrantLease Grant(std::string_view pool, std::string_view incarnation) const;

  // coordinator_placement.cc: which idle pools get which job, and whether its state has room in
  // memory.
  void PlacePools();
  JobDemand DemandOf(const Job& job, int64_t memory_left) const;
  std::vector<PoolOffer> Offers() const;
  bool ReleasePartialSets(const std::vector<Lack>& lacks);
  bool AnotherJobGains(const Job& job, const std::string& pool) const;
  void Explain(const Placement& placement);
  // Whether its store is to be opened.
  static bool AwaitsStore(const Job& job);
  // Whether its state is in memory, or may be once its pools are ready.
  static bool HoldsMemory(const Job& job);
  // Whether jobs that have not begun leave memory for it: it holds it, or awaits its store.
  static bool TakesMemory(const Job& job);
  // What is left beside the jobs that `takes` (HoldsMemory or TakesMemory) names, and those that
  // have ended.
  int64_t MemoryLeft(bool (*takes)(const Job&)) const;
  // Nothing: the job holds memory already, or there is room for it.
  std::optional<std::string> MemoryLack(const Job& job, int64_t memory_left) const;
  void OpenWithinMemory(Job& job);
  void ShareMemory();
  static bool TakesPools(const Job& job);
  static bool CouldDo(const std::string& pool, const PoolTraits& traits, const Job& job);

  // coordinator_rounds.cc: what each job does next.
  Participant* Admit(const RankReady& event, Job& job);
  void Touch(const Job& job) { touched_.insert(job.id); }
  void Advance(Job& job);
  void Proceed(Job& job);
  void Seed(Job& job);
  void ApplyDue(Job& job);
  void CountLate(const Job& job, Participant& late);
  std::string ChooseEvaluator(const Job& job, const DueRound& due) const;
  void FinishWhenReady(Job& job);
  absl::Time AwaitsPoolsUntil(const Job& job) const;
  void Reschedule(Job& job);

  // coordinator_views.cc.
  std::optional<Waiting> WaitingFor(const Job& job) const;
  PoolState PoolStateOf(const Member& member) const;
  PoolView ViewOf(const Member& member) const;
  // Of a pool that has a place.
  bool IsAway(const std::string& pool) const;

  // refusals.cc: the text of every refusal.
  static Refuse NotAssigned(std::string_view job_name, std::string_view pool);
  std::optional<Refuse> JobRefusal(std::string_view id) const;
  std::optional<Refuse> LeaseRefusal(std::string_view pool, std::string_view incarnation) const;
  static std::optional<Refuse> OpeningRefusal(const Job& job);
  static Refuse MustBeginAgain(std::string_view job_name, std::string_view pool);
  static std::optional<Refuse> PlaceRefusal(const Job& job, std::string_view pool,
                                            std::string_view incarnation);
  std::optional<Refuse> ContributionRefusal(ContributionVerdict verdict, const Job& job,
                                            const ContributionId& contribution) const;
  // Returns the job if it has not ended. Otherwise refuses and returns null.
  Job* FindLive(std::string_view id);
  void AnswerWith(Answer answer) { out_.answer = std::move(answer); }

  Job* Find(std::string_view id);
  const Job* Find(std::string_view id) const;

  CoordinatorOptions options_;
  Membership membership_;
  // The nodes of pools that have several. membership_ has such a pool while all its nodes are here.
  NodeGroups nodes_;
  // Jobs that have not ended: by id, and in the order of their submission.
  ByName<std::unique_ptr<Job>> jobs_;
  std::map<int64_t, Job*> in_order_;
  int64_t next_order_ = 0;
  // Jobs that have ended, until nothing is left to do for them.
  EndedJobs ended_;
  // How the newest jobs ended, for calls that come late.
  struct Ending {
    std::string name;
    JobState state;
  };
  std::map<std::string, Ending, std::less<>> endings_;
  std::deque<std::string> endings_order_;
  // The places of live, lost and away pools.
  ByName<HeldPlace> places_;
  // By pool: an incarnation that may not come back, since a job continued without it.
  std::map<std::string, std::string, std::less<>> outdated_;
  // Jobs by the time at which they need attention.
  std::set<std::pair<absl::Time, std::string>> due_;
  std::map<std::string, absl::Time> due_of_;
  // Jobs that Advance looks at in this Step.
  std::set<std::string> touched_;
  // Jobs that ended in this Step.
  std::vector<std::string> retired_;
  // Something changed, so a job may get an idle pool.
  bool placement_due_ = true;
  absl::Time placement_at_ = absl::InfiniteFuture();
  // The pool that gets a lease as answer, at the end of this Step.
  std::optional<std::pair<std::string, std::string>> granting_;
  absl::Time now_;
  Decision out_;
};

}  // namespace longhaul::coordinator

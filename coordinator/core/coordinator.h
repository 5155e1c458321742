// The coordinator's core: every decision about jobs, pools and rounds, as a deterministic state
// machine. Step takes one fact and returns what is to be done about it. No thread, socket, file,
// clock or randomness; buffers are named by fragment and version and never pass through.
//
// It joins Membership (who is alive), JobTable (what is to be done) and one Exchange for each job
// (its rounds). The same object runs in the service, in the transcripts (tests/scenarios), in the
// fault search (tests/simulation) and in the planner.
//
// Externally synchronised. `now` must not go backwards from one Step to the next. Step never blocks
// and never fails; what a peer may not do is answered by Refuse.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "coordinator/core/action.h"
#include "coordinator/core/event.h"
#include "coordinator/core/recovery.h"
#include "coordinator/job/job_table.h"
#include "coordinator/pool/membership.h"
#include "coordinator/sync/exchange.h"

namespace longhaul::coordinator {

struct CoordinatorOptions {
  absl::Duration lease = absl::Seconds(10);  // A pool that is silent for so long is lost.
  absl::Duration final_evaluation =
      absl::Seconds(60);  // The job completes without it after so long.
  int pools_max = 4096;   // Pools that may hold a lease at one time.
};

// What a job waits for, in words, since when and at most until when (InfiniteFuture: no bound of
// ours).
struct Waiting {
  std::string what;
  absl::Time since, until;
};

struct ParticipantView {
  std::string pool, incarnation;
  int ordinal = 0;
  std::optional<int64_t> start_step;  // Nothing: its ranks are not ready yet.
  bool live = false;
  int64_t inner_step = 0;  // As its last heartbeat said.
};

struct FragmentView {
  int64_t version = -1;           // Committed. -1: not seeded.
  int64_t last_version = 0;       // The version after the job's last round of this fragment.
  std::vector<int> contributors;  // Ordinals whose contribution to version + 1 is whole.
};

struct JobView {
  JobState state = JobState::kPending;
  std::optional<JobFault> fault;
  std::optional<Waiting> waiting;
  std::vector<ParticipantView> participants;  // By ordinal, with those that are lost or left.
  std::vector<FragmentView> fragments;
};

struct PoolView {
  std::string pool, incarnation;
  int ranks = 0;
  absl::Time lease_end;  // In the past: lost.
  std::optional<Assignment> assignment;
  bool ready = false;  // Takes part in rounds.
};

class Coordinator {
 public:
  // `now`: participants that were alive before the restart get a lease of grace from here on.
  Coordinator(const CoordinatorOptions& options, const Recovery& recovery, absl::Time now);

  std::vector<Action> Step(const Event& event, absl::Time now);

  // The next moment at which a Tick would change something; InfiniteFuture if none.
  absl::Time next_deadline() const;

  // Nothing if the job is unknown.
  std::optional<JobView> job(std::string_view id) const;
  std::vector<std::string> jobs() const;  // In the order of submission.
  std::vector<PoolView> pools() const;    // By name.

 private:
  // The place that a pool holds now.
  struct Place {
    std::string job;
    int ordinal = 0;
  };

  void On(const SubmitJob& event);
  void On(const CancelJob& event);
  void On(const JoinPool& event);
  void On(const Heartbeat& event);
  void On(const LeavePool& event);
  void On(const PoolFailed& event);
  void On(const EvaluationReported& event);
  void On(const RankReady& event);
  void On(const ContributionBegins& event);
  void On(const ContributionComplete& event);
  void On(const RoundApplied& event);
  void On(const ApplyFailed& event);
  void On(const Tick&) {}

  void Recover(const RecoveredJob& recovered);

  // coordinator_pools.cc: from a pool's name to its place in a job.
  void ExpireLeases();
  bool RefuseReturn(std::string_view pool, std::string_view incarnation);
  void TakeBack(std::string_view pool, std::string_view incarnation);
  void DropOthers(std::string_view pool, std::string_view incarnation);
  void Drop(const Job& job, Participant& participant, Presence presence);
  void AssignIdle();
  Job* OldestOpenJob(std::string_view pool);
  void Grant(std::string_view pool, std::string_view incarnation);

  // coordinator_rounds.cc: what each job does next.
  Participant* Admit(const RankReady& event, Job& job);
  void Touch(const Job& job) { touched_.insert(job.id); }
  void Advance(Job& job);
  void Seed(Job& job);
  void ApplyDue(Job& job);
  std::string ChooseEvaluator(const Job& job, const DueRound& round) const;
  void CheckpointDue(const Job& job, int fragment, int64_t version);
  void AwaitFinalEvaluation(Job& job);
  void MoveTo(Job& job, JobState state);
  void End(Job& job, JobState state);

  // coordinator_views.cc.
  std::optional<Waiting> WaitingFor(const Job& job) const;

  // refusals.cc: the words of every refusal.
  Job* FindLive(std::string_view id);  // Refuses, and returns null, if the job is unknown or ended.
  bool RequireLease(std::string_view pool, std::string_view incarnation);
  bool RefuseContribution(ContributionVerdict verdict, const Exchange& exchange,
                          const ContributionComplete& event);
  void Emit(Action action) { out_.push_back(std::move(action)); }

  Exchange& exchange(const Job& job) { return exchanges_.at(job.id); }
  const Exchange& exchange(const Job& job) const { return exchanges_.at(job.id); }

  CoordinatorOptions options_;
  Membership membership_;
  JobTable jobs_;
  std::map<std::string, Exchange> exchanges_;         // By job.
  std::map<std::string, Place, std::less<>> places_;  // By pool; live pools alone.
  std::set<std::string> touched_;                     // Jobs to be looked at in this Step.
  bool idle_changed_ = true;                          // A pool or a job may want the other.
  absl::Time now_;
  std::vector<Action> out_;
};

}  // namespace longhaul::coordinator

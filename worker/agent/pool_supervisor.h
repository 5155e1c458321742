// The agent's core: decides what is to be done with a pool's ranks. It compares what the
// coordinator assigns with what runs, watches that the ranks make progress, and drains them. No
// thread, process, clock or socket. Externally synchronised.
//
//   idle --assigned--> running --all ranks finished, or one reported a failure--> ended
//   ended --still assigned, after a delay that grows--> lost
//   running --a rank is lost, stands still, or outlives the others--> lost
//   lost --another incarnation--> idle
//   running --nothing is assigned any more--> leaving
//   leaving --all ranks ended, or their time is over--> idle
//   running --its job is being paused--> stopping --all ranks ended, or their time is over--> ended
//   any --drain--> draining --all ranks ended, or its time is over--> done
//   idle --for too long--> done
//
// An incarnation whose ranks did steps of a job does not begin that job again: pushes of the ended
// ranks may have counted, and their error feedback is lost. A group of nodes never begins a job
// twice, so that all of its ranks know which start they belong to.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "absl/time/time.h"
#include "worker/agent/rank_report.h"

namespace longhaul {

// How a rank process ends.
enum RankExit : int {
  // The rank has nothing more to do: session::Extent kNothing, kAll, kPart.
  kRankFinished = 0,
  kRankCompleted = 12,
  kRankStopped = 13,
  // It cannot continue as this incarnation.
  kRankRestart = 10,
  // The site or the job has a fault, and it was reported.
  kRankFailed = 11,
  // Anything else, and any signal (128 + its number): the process was lost.
};

// How long ranks may make no progress. Time that a rank waits for the coordinator does not count;
// nor does time that it waits in a collective for such a rank.
struct ProgressLimits {
  absl::Duration at_least = absl::Seconds(60);
  // Times the usual time of what the rank does.
  double factor = 20;
  // The limit while the rank's pace is not known: it loads data, makes the model, and runs the
  // first steps.
  absl::Duration first = absl::Minutes(30);

  // The limit of a rank (RankStatus::expected_seconds). 0: its pace is not known.
  absl::Duration Of(double expected_seconds) const;
};

class PoolSupervisor {
 public:
  struct Options {
    // Ranks of this node.
    int ranks = 1;
    ProgressLimits progress;
    absl::Duration drain = absl::Seconds(30);
    // Nodes of the pool. If there are several, the incarnation is that of their group.
    int nodes = 1;
    // With no job for so long, also while the coordinator does not answer, the agent ends.
    absl::Duration exit_when_idle = absl::InfiniteDuration();
  };
  // What the coordinator wants. `job` is empty if there is nothing to do.
  struct Work {
    std::string incarnation, job;
    int ordinal = 0;
    // The number of this node's first rank in the pool.
    int first_rank = 0;
    // The ranks are to stop, since the job is being paused (Assignment.stop).
    bool stop = false;
    friend bool operator==(const Work&, const Work&) = default;
  };

  // Start all ranks of the current work. Their Exited, Status and Failed follow.
  struct StartRanks {};
  // End them at once. No further event of them is given. `lost`: how the first of them was lost, if
  // the group ended before that was told. Empty otherwise.
  struct KillRanks {
    std::string lost;
  };
  // Ask them to stop after their current step.
  struct DrainRanks {};
  // Leave, and come back as a new incarnation after `delay`.
  struct Rejoin {
    std::string reason;
    absl::Duration delay;
  };
  // Leave and end. If there was work, the place is kept.
  struct Done {
    bool had_work = false;
    // It had no job for exit_when_idle.
    bool idle = false;
  };
  using Action = std::variant<StartRanks, KillRanks, DrainRanks, Rejoin, Done>;
  using Actions = std::vector<Action>;

  enum class State { kIdle, kRunning, kStopping, kLeaving, kEnded, kLost, kDraining, kDone };

  PoolSupervisor(Options options, absl::Time now);

  // Call with every answer of the coordinator, even if nothing changed.
  Actions Assigned(const Work& work, absl::Time now);
  Actions Reported(int rank, const RankStatus& status, absl::Time now);
  // A rank reported a fault of its site or its job. It is about to end.
  Actions Failed();
  Actions Exited(int rank, int code, absl::Time now);
  // The ranks could not be started.
  Actions StartFailed(const std::string& reason);
  // Call often: at least four times in progress.at_least. A late tick means that this process
  // itself was stopped; the ranks are not blamed for that time.
  Actions Tick(absl::Time now);
  Actions Drain(absl::Time now);

  State state() const { return state_; }
  // All ranks completed the current work.
  bool completed() const { return state_ == State::kEnded && completed_; }
  // The ranks have ended as the coordinator asked.
  bool stopped() const { return state_ == State::kEnded && work_.stop; }
  const Work& work() const { return work_; }

 private:
  struct Rank {
    absl::Time started, seen, progressed;
    bool reported = false, ended = false;
    RankStatus status;
  };

  void Start(absl::Time now, Actions& out);
  void Stop(absl::Time now, Actions& out);
  void Kill(Actions& out, std::string untold = "");
  void Lose(const std::string& reason, Actions& out);
  // Decides when all ranks have ended, or when the others had time to end.
  void Conclude(absl::Time now, Actions& out);
  bool AllEnded() const;
  void ExcuseWaitingRanks(absl::Time now);
  // Names a rank that makes no progress.
  std::optional<std::string> FindStall(absl::Time now) const;

  const Options options_;
  State state_ = State::kIdle;
  Work work_;
  // The jobs that this incarnation cannot begin again.
  std::set<std::string> spent_;
  std::vector<Rank> ranks_;
  // A rank reported a failure.
  bool failed_ = false;
  // Every rank that ended had completed the work.
  bool completed_ = false;
  // A rank ended because the pool drains: another node was asked to.
  bool stopped_ = false;
  // Every rank that ended had done nothing: kRankFinished.
  bool did_nothing_ = false;
  // Why the group is lost. Set until the other ranks had time to end.
  std::string lost_;
  absl::Time conclude_at_ = absl::InfiniteFuture();
  // Losses in a row, without a step between them.
  int losses_ = 0;
  // For the last job.
  int restarts_ = 0;
  std::string last_job_;
  // In kEnded: not before this time.
  absl::Time restart_at_;
  // In kLeaving: no longer than this.
  absl::Time leave_until_;
  // In kStopping and kDraining.
  absl::Time drain_until_;
  absl::Time ticked_;
  // When it last had a job, or began.
  absl::Time had_job_;
};

}  // namespace longhaul

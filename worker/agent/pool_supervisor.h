// The agent's core: what is to be done with a pool's ranks. It compares what the coordinator
// assigns with what runs, watches that the ranks get on, and drains them. No thread, process, clock
// or socket. Externally synchronised.
//
//   idle --assigned--> running --all ranks finished, or one reported a failure--> ended
//   ended --still assigned, after a delay that grows--> lost
//   running --a rank is lost, stands still, or outlives the others--> lost
//   lost --another incarnation--> idle
//   any --drain--> draining --all ranks ended, or its time is over--> done
//
// What the ranks pushed before they ended may have counted, and their error feedback is gone: an
// incarnation whose ranks did steps of a job does not begin it again. A group of nodes never begins
// a job twice, so that all of its ranks know which start they belong to.
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
  // There is nothing more to do for it: session::Extent kNothing, kAll, kPart.
  kRankFinished = 0,
  kRankCompleted = 12,
  kRankStopped = 13,
  kRankRestart = 10,  // Cannot go on as this incarnation.
  kRankFailed = 11,   // The site or the job is at fault; a failure was reported.
  // Anything else, and any signal (128 + its number): the process was lost.
};

// How long ranks may stand still. A rank that waits for the coordinator does not count, nor one
// that waits in a collective for a rank that does.
struct ProgressLimits {
  absl::Duration at_least = absl::Seconds(60);
  double factor = 20;  // Of the usual time of what the rank does.
  // Before its pace is known: it loads data, makes the model, runs the first steps.
  absl::Duration first = absl::Minutes(30);
};

class PoolSupervisor {
 public:
  struct Options {
    int ranks = 1;  // Of this node.
    ProgressLimits progress;
    absl::Duration drain = absl::Seconds(30);
    // Of the pool. With several the incarnation is that of their group.
    int nodes = 1;
  };
  // What the coordinator wants; `job` is empty: nothing.
  struct Work {
    std::string incarnation, job;
    int ordinal = 0;
    int first_rank = 0;  // Of this node, in the pool.
    friend bool operator==(const Work&, const Work&) = default;
  };

  // Start all ranks of the work at hand. After it their Exited, Status and Failed follow.
  struct StartRanks {};
  // End them at once; nothing more is told of them.
  struct KillRanks {};
  // Ask them to stop behind the step that they are in.
  struct DrainRanks {};
  // Leave; come back as a new incarnation after `delay`.
  struct Rejoin {
    std::string reason;
    absl::Duration delay;
  };
  // Leave, keeping the place if there was work, and end.
  struct Done {
    bool had_work = false;
  };
  using Action = std::variant<StartRanks, KillRanks, DrainRanks, Rejoin, Done>;
  using Actions = std::vector<Action>;

  enum class State { kIdle, kRunning, kEnded, kLost, kDraining, kDone };

  PoolSupervisor(Options options, absl::Time now);

  // Every answer of the coordinator, also one like the last.
  Actions Assigned(const Work& work, absl::Time now);
  Actions Reported(int rank, const RankStatus& status, absl::Time now);
  // A rank reported that its site or its job is at fault; it is about to end.
  Actions Failed();
  Actions Exited(int rank, int code, absl::Time now);
  // The ranks could not be started.
  Actions StartFailed(const std::string& reason);
  // Often: a quarter of progress.at_least or less. A late tick means that this process itself was
  // stopped: the ranks are not blamed for that time.
  Actions Tick(absl::Time now);
  Actions Drain(absl::Time now);

  State state() const { return state_; }
  // All ranks came to the end of the work at hand.
  bool completed() const { return state_ == State::kEnded && completed_; }
  const Work& work() const { return work_; }

 private:
  struct Rank {
    absl::Time started, seen, progressed;
    bool reported = false, ended = false;
    RankStatus status;
  };

  void Start(absl::Time now, Actions& out);
  void Kill(Actions& out);
  void Lose(const std::string& reason, Actions& out);
  // All ranks have ended, or the others had time to.
  void Conclude(absl::Time now, Actions& out);
  bool AllEnded() const;
  void ExcuseThoseWhoWait(absl::Time now);
  // Names a rank that stands still.
  std::optional<std::string> FindStall(absl::Time now) const;
  absl::Duration LimitOf(const Rank& rank) const;

  const Options options_;
  State state_ = State::kIdle;
  Work work_;
  // The jobs that this incarnation cannot begin again.
  std::set<std::string> spent_;
  std::vector<Rank> ranks_;
  bool failed_ = false;  // A rank reported a failure.
  // Every rank that ended had completed the work.
  bool completed_ = false;
  bool stopped_ = false;  // A rank ended because the pool drains: another node was asked to.
  std::string lost_;      // Why the group is lost, until the others had time to end.
  absl::Time conclude_at_ = absl::InfiniteFuture();
  int losses_ = 0;    // In a row, without a step between them.
  int restarts_ = 0;  // Of the last job.
  std::string last_job_;
  absl::Time restart_at_;  // kEnded: not before.
  absl::Time drain_until_;
  absl::Time ticked_;
};

}  // namespace longhaul

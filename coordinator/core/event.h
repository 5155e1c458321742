// The events of the coordinator's core: plain facts, made by the shell (gRPC adapters, data plane,
// clock). The shell validates names. The core answers every other mistake of a peer with Refuse.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "absl/time/time.h"
#include "common/base/named_value.h"
#include "common/schedule/round_kind.h"
#include "coordinator/core/recovery.h"
#include "coordinator/job/job_fault.h"
#include "coordinator/job/job_options.h"
#include "coordinator/job/lifecycle.h"

namespace longhaul::coordinator {

// --- Jobs.

// A new job. It is stored already, as PENDING.
struct SubmitJob {
  std::string job;
  JobOptions options;
};
struct CancelJob {
  std::string job;
  std::string reason;
};
// A user gives the job's pools back, until ResumeJob. `by`: who it is, or empty.
struct PauseJob {
  std::string job;
  std::string by, reason;
};
struct ResumeJob {
  std::string job;
  std::string by;
};
// A user requests a checkpoint of the next version that all fragments reach, or the one that was
// requested and is not written yet.
struct AskCheckpoint {
  std::string job;
};
// A user deletes a stored job. `state` is the stored state; it is needed for jobs that ended before
// this start of the coordinator.
struct DeleteJob {
  std::string job;
  JobState state = JobState::kCompleted;
};

// --- Pools.

// The agent of a pool joins. A pool of several nodes has one agent on each.
struct JoinPool {
  std::string pool, incarnation;
  // The ranks of this node.
  int ranks = 1;
  bool cuda = false;
  std::set<std::string> capabilities = {};
  // See NodeTraits.
  int nodes = 1;
  std::optional<int> node = std::nullopt;
  bool node_given = false;
  std::string host = {}, rendezvous = {}, token = {}, version = {};
  // For several nodes: the group's incarnation under which its ranks run. Empty: none.
  std::string running = {};
  // A new name, used as the incarnation of the group if this node completes it.
  std::string fresh = {};
  // See NodeTraits.
  std::string machine = {};
  // An incarnation that has ended for certain. Empty: none.
  std::string replaces = {};
};

// An evaluation of the outer parameters, or of the pool's own. `final`: of the outer parameters
// after the last round.
struct Evaluation {
  int64_t step = 0, version = 0;
  double loss = 0;
  int64_t tokens = 0;
  bool final = false;
  bool of_pool = false;
  // Everything that was measured.
  std::vector<NamedValue> metrics = {};
};

struct Heartbeat {
  // The agent's.
  std::string pool, incarnation;
  // The job that the pool works on, or empty. The fields below are about it.
  std::string job;
  int64_t inner_step = 0;
  // The pool takes no new work and does no step after inner_step.
  bool draining = false;
  // The pool merged the last commits, and did all that it does after that.
  bool finished = false;
  // The pool merged the last commits; it may still evaluate them. Said by its node 0.
  bool merged = false;
  // The pool does no step after inner_step.
  bool stopping = false;
  // The ranks have ended, since the assignment said so (GrantLease).
  bool stopped = false;
  std::vector<Evaluation> evaluations = {};
  // The pool cannot continue with the job.
  std::optional<JobFault> fault = std::nullopt;
  // The incarnation of the ranks that the heartbeat is about. Empty: the agent's.
  std::string running = {};
};
struct LeavePool {
  std::string pool, incarnation;
  // How long its place should be kept. Zero: the place is given up.
  absl::Duration return_within = absl::ZeroDuration();
};

// --- Ranks.

// A rank opened WatchPlan. Repeated after each reconnect.
struct RankReady {
  std::string job, pool, incarnation;
  int rank = 0;
};
// All blocks of a contribution arrived, were verified and are in the log.
struct ContributionComplete {
  std::string job, pool, incarnation;
  int fragment = 0;
  int64_t version = 0;
  RoundKind kind = RoundKind::kOuter;
};

// --- How the works of decisions ended.

// An error of the data plane. `retry`: it may succeed later (the disk is full). Otherwise this
// process can no longer use the job's store.
struct WorkFault {
  bool retry = false;
  JobFault fault;
  // What the job begins with cannot be used: the job fails.
  bool fails_job = false;
};

struct StoreOpened {
  std::string job;
  std::vector<RecoveredFragment> fragments;
};
// The commit of an ApplyRound is durable.
struct RoundApplied {
  std::string job;
  int fragment = 0;
  int64_t version = 0;
};
struct CheckpointWritten {
  std::string job;
  bool final = false;
  // As in WriteCheckpoint.
  int64_t cycle = 0;
};
struct OpenFailed {
  std::string job;
  WorkFault fault;
};
struct ApplyFailed {
  std::string job;
  int fragment = 0;
  int64_t version = 0;
  WorkFault fault;
};
struct CheckpointFailed {
  std::string job;
  bool final = false;
  WorkFault fault;
  int64_t cycle = 0;
};
// The files of a deleted job were removed, or could not be removed yet.
struct FilesRemoved {
  std::string job;
};
struct RemoveFailed {
  std::string job;
};
// The state of a job that ended is in memory once more (within Coordinator::memory_left()), or is
// not any more.
struct StateTaken {
  std::string job;
  int64_t memory = 0;
};
struct StateFreed {
  std::string job;
};
// The job's store failed outside of these works, while contributions were logged.
struct StoreFailed {
  std::string job;
  JobFault fault;
};

// --- Clock. Comes at least once a second.
struct Tick {};

using Event =
    std::variant<SubmitJob, CancelJob, PauseJob, ResumeJob, AskCheckpoint, DeleteJob, JoinPool,
                 Heartbeat, LeavePool, RankReady, ContributionComplete, StoreOpened, RoundApplied,
                 CheckpointWritten, OpenFailed, ApplyFailed, CheckpointFailed, StoreFailed,
                 FilesRemoved, RemoveFailed, StateTaken, StateFreed, Tick>;

}  // namespace longhaul::coordinator

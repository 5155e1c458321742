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
#include "common/schedule/round_id.h"
#include "coordinator/core/recovery.h"
#include "coordinator/job/contribution_id.h"
#include "coordinator/job/job_fault.h"
#include "coordinator/job/job_options.h"
#include "coordinator/job/lifecycle.h"

namespace longhaul::coordinator {

// --- Jobs.

// A new job. Without an answer it is stored as PENDING.
struct SubmitJob {
  std::string job;
  JobOptions options;
  // The user who submits it, or empty if not known.
  std::string owner = {};
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
// A user deletes a stored job that has ended. `state` is the stored state.
struct DeleteJob {
  std::string job;
  JobState state = JobState::kCompleted;
};
// These jobs ended so long ago that they are deleted for their age. The oldest comes first.
struct JobsExpired {
  std::vector<DeleteJob> jobs;
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
  ContributionId id;
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
// The contributions of a MeasureRound, in its order.
struct RoundMeasured {
  std::string job;
  RoundId round;
  std::vector<OuterMeasure> contributions;
};
// The commit of an ApplyRound is durable.
struct RoundApplied {
  std::string job;
  RoundId round;
};
// `final`, `last`, `cycle`: as in WriteCheckpoint.
struct CheckpointWritten {
  std::string job;
  bool final = false;
  int64_t cycle = 0;
  bool last = false;
};
struct OpenFailed {
  std::string job;
  WorkFault fault;
};
// Also of a MeasureRound.
struct ApplyFailed {
  std::string job;
  RoundId round;
  WorkFault fault;
  // The log has this contribution no longer as it came. Nothing was applied, and it does not count.
  std::optional<Contributor> damaged = std::nullopt;
};
struct CheckpointFailed {
  std::string job;
  bool final = false;
  WorkFault fault;
  int64_t cycle = 0;
  bool last = false;
};
// Nothing holds the job's store any more: its memory is free.
struct StoreClosed {
  std::string job;
};
// The log of an ended job is removed, with its snapshots.
struct LogRemoved {
  std::string job;
};
// It holds versions that no checkpoint has. Without `options` this program cannot open its store.
struct LogNeeded {
  std::string job;
  std::optional<JobOptions> options = std::nullopt;
};
// It is still there. Without `retry` its last checkpoint is damaged.
struct LogRemovalFailed {
  std::string job;
  bool retry = false;
};
// The files of a deleted job were removed, or could not be removed yet.
struct FilesRemoved {
  std::string job;
};
struct RemoveFailed {
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
    std::variant<SubmitJob, CancelJob, PauseJob, ResumeJob, AskCheckpoint, DeleteJob, JobsExpired,
                 JoinPool, Heartbeat, LeavePool, RankReady, ContributionComplete, StoreOpened,
                 RoundMeasured, RoundApplied, CheckpointWritten, OpenFailed, ApplyFailed,
                 CheckpointFailed, StoreFailed, StoreClosed, LogRemoved, LogNeeded,
                 LogRemovalFailed, FilesRemoved, RemoveFailed, Tick>;

}  // namespace longhaul::coordinator

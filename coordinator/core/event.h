// What happens to the coordinator's core. Plain facts, made by the shell (gRPC adapters, data
// plane, clock). Names are validated by the shell; everything else that a peer may have wrong is
// answered by Refuse.
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
#include "coordinator/job/job_options.h"
#include "coordinator/job/lifecycle.h"

namespace longhaul::coordinator {

// --- Jobs.

// A new job, stored already as PENDING.
struct SubmitJob {
  std::string job;
  JobOptions options;
};
struct CancelJob {
  std::string job;
  std::string reason;
};
// A checkpoint of the next whole version is wanted.
struct AskCheckpoint {
  std::string job;
};
// A job that is stored, to be forgotten. `state`: as it is stored, for those that ended before this
// start.
struct DeleteJob {
  std::string job;
  JobState state = JobState::kCompleted;
};

// --- Pools.

// A pool's agent, or one of them: a pool of several nodes has one on each.
struct JoinPool {
  std::string pool, incarnation;
  // Of this node.
  int ranks = 1;
  bool cuda = false;
  std::set<std::string> capabilities = {};
  // See NodeTraits.
  int nodes = 1;
  std::optional<int> node = std::nullopt;
  std::string host = {}, rendezvous = {}, token = {}, version = {};
  // Of several nodes: the group's incarnation under which its ranks run. Empty: none.
  std::string running = {};
  // A new incarnation, for the group that this node may complete.
  std::string fresh = {};
};

// An evaluation of the outer parameters, or of the pool's own. `final`: of the outer ones after the last round.
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
  // Of the agent.
  std::string pool, incarnation;
  // The job that the pool works on; empty: none. What follows is about it.
  std::string job;
  int64_t inner_step = 0;
  // It takes no new work and does no step after inner_step.
  bool draining = false;
  // It merged the last commits.
  bool finished = false;
  std::vector<Evaluation> evaluations = {};
  // It cannot go on with the job.
  std::optional<JobFault> fault = std::nullopt;
  // The incarnation of the ranks that this is about. Empty: the agent's.
  std::string running = {};
};
struct LeavePool {
  std::string pool, incarnation;
  // How long it asks for its place to be kept. Zero: the place is given up.
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

// What the data plane could not do. `retry`: it may succeed later (the disk is full); otherwise the
// job's store is of no more use to this process.
struct WorkFault {
  bool retry = false;
  JobFault fault;
};

struct StoreOpened {
  std::string job;
  std::vector<RecoveredFragment> fragments;
};
// The commit that ApplyRound asked for is durable.
struct RoundApplied {
  std::string job;
  int fragment = 0;
  int64_t version = 0;
};
struct CheckpointWritten {
  std::string job;
  bool final = false;
  // As it was asked for.
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
// The files of a deleted job are gone, or not yet.
struct FilesRemoved {
  std::string job;
};
struct RemoveFailed {
  std::string job;
};
// The job's store failed outside of these works: while contributions were logged.
struct StoreFailed {
  std::string job;
  JobFault fault;
};

// --- Clock. At least once a second; also at next_deadline().
struct Tick {};

using Event = std::variant<SubmitJob, CancelJob, AskCheckpoint, DeleteJob, JoinPool, Heartbeat,
                           LeavePool, RankReady, ContributionComplete, StoreOpened, RoundApplied,
                           CheckpointWritten, OpenFailed, ApplyFailed, CheckpointFailed,
                           StoreFailed, FilesRemoved, RemoveFailed, Tick>;

}  // namespace longhaul::coordinator

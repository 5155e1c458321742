// What happens to the coordinator's core. Plain facts, made by the shell (gRPC adapters, data
// plane, clock). Names are validated by the shell; everything else that a peer may have wrong is
// answered by Refuse.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "common/schedule/round_kind.h"
#include "coordinator/job/job_options.h"

namespace longhaul::coordinator {

// --- JobService. A repeated submission (token or name) is answered by the shell, from the store.
struct SubmitJob {
  std::string job;
  JobOptions options;
};
struct CancelJob {
  std::string job;
  std::string reason;
};

// --- PoolService.
struct JoinPool {
  std::string pool, incarnation;
  int ranks = 1;
};
struct Heartbeat {
  std::string pool, incarnation, job;
  int64_t inner_step = 0;
};
struct LeavePool {
  std::string pool, incarnation;
};
// The pool met a fault that any other pool would meet too (the spec, the data). fault.pool need not
// be set.
struct PoolFailed {
  std::string pool, incarnation, job;
  JobFault fault;
};
// An evaluation of the outer parameters that is durable already. `final`: of those after the last
// round.
struct EvaluationReported {
  std::string pool, incarnation, job;
  bool final = false;
};

// --- SyncService.
// A rank opened WatchPlan. Repeated after each reconnect.
struct RankReady {
  std::string job, pool, incarnation;
  int rank = 0;
};
// Before blocks are received: would this contribution be accepted? Changes nothing. Answered by
// Refuse, or not at all.
struct ContributionBegins {
  std::string job, pool, incarnation;
  int fragment = 0;
  int64_t version = 0;
  RoundKind kind = RoundKind::kOuter;
};
// All blocks of a contribution arrived, were verified and are in the log.
struct ContributionComplete {
  std::string job, pool, incarnation;
  int fragment = 0;
  int64_t version = 0;
  RoundKind kind = RoundKind::kOuter;
};

// --- Data plane.
// The commit that ApplyRound asked for is durable.
struct RoundApplied {
  std::string job;
  int fragment = 0;
  int64_t version = 0;
};
// The data plane could not apply a round, write state or a checkpoint: the job cannot go on.
struct ApplyFailed {
  std::string job;
  JobFault fault;
};

// --- Clock. At least once a second; also at next_deadline().
struct Tick {};

using Event = std::variant<SubmitJob, CancelJob, JoinPool, Heartbeat, LeavePool, PoolFailed,
                           EvaluationReported, RankReady, ContributionBegins, ContributionComplete,
                           RoundApplied, ApplyFailed, Tick>;

}  // namespace longhaul::coordinator

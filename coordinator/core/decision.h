// What the coordinator's core decides in one Step, in the order in which it takes effect:
//
//   records   made durable, all in one transaction, before anything else of the decision
//   answer    to the event, at most one
//   notices   told to those who watch, in their order
//   works     begun; each ends in an event
//
// Decisions take effect in the order of their Steps: nothing of one is done before all but the
// works of the one before it are. So nothing is answered or told that a restart would forget.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/schedule/round_kind.h"
#include "coordinator/core/event.h"
#include "coordinator/core/recovery.h"
#include "coordinator/job/job_options.h"
#include "coordinator/job/lifecycle.h"
#include "coordinator/pool/node_groups.h"

namespace longhaul::coordinator {

// --- Records.

struct StoreJobState {
  std::string job;
  JobState state = JobState::kPending;
  std::optional<JobFault> fault;
};
// A pool's place in a job, by (job, ordinal): written again whenever one of these changes.
struct StorePlace {
  std::string job;
  RecoveredPlace place;
};
struct StoreEvaluation {
  std::string job;
  // Who evaluated.
  std::string pool;
  Evaluation evaluation;
};
using Record = std::variant<StoreJobState, StorePlace, StoreEvaluation>;

// --- Answers.

// The event is refused. `reason` is the stable word of ErrorInfo: JOB_UNKNOWN, JOB_EXISTS,
// JOB_ENDED, JOB_FINISHING, JOB_QUARANTINED, STORE_OPENING, POOL_UNKNOWN, POOL_LIVE, POOL_REPLACED,
// POOL_LOST, POOLS_FULL, NODES_DISAGREE, NODE_LIVE, NOT_ASSIGNED, NOT_READY, NOT_SEEDER,
// NOT_REQUIRED, FRAGMENT_UNKNOWN, KIND_MISMATCH, VERSION_MISMATCH (with `have`), ROUND_CLOSED.
struct Refuse {
  absl::Status status;
  std::string reason;
  // VERSION_MISMATCH: the committed version.
  std::optional<int64_t> have = std::nullopt;
  // POOL_LIVE: until the lease ends. STORE_OPENING: a while.
  absl::Duration retry_after = absl::ZeroDuration();
};

struct Assignment {
  std::string job;
  int ordinal = 0;
};
struct GrantLease {
  std::string pool, incarnation;
  absl::Duration lease;
  std::optional<Assignment> assignment;
  // Of a pool of several nodes: ranks work under its incarnation.
  std::optional<NodePlace> node = std::nullopt;
};
// Answers RankReady with a Plan.
struct AdmitRank {
  std::string job, pool, incarnation;
  int rank = 0;
  int64_t start_step = 0;
  int ordinal = 0;
  bool seed = false;
};
using Answer = std::variant<Refuse, GrantLease, AdmitRank>;

// --- Notices.

// To the open WatchPlan streams of the pool: SeedRequest. Ranks that come later learn it from
// AdmitRank::seed.
struct RequestSeed {
  std::string job, pool;
};
// To all WatchPlan streams of the job: Commit.
struct PublishCommit {
  std::string job;
  int fragment = 0;
  int64_t version = 0;
  RoundKind kind = RoundKind::kOuter;
  // Contributors, in the order of the sum.
  std::vector<std::string> pools;
  std::string evaluator;
};
// The pool works on this job no more: its streams end, its next heartbeat tells it. `status` says
// why, and is what its streams end with.
struct ReleasePool {
  std::string job, pool, incarnation;
  absl::Status status;
};
// The pool cannot do this job now.
struct PoolSetAside {
  std::string job, pool;
  JobFault fault;
  absl::Duration retry_after;
};
// The job's end, durable already: JobEnded to its WatchPlan streams, its rounds are dropped. Also
// QUARANTINED, which is not stored.
struct EndJob {
  std::string job;
  JobState state = JobState::kCompleted;
  std::optional<JobFault> fault;
};
using Notice = std::variant<RequestSeed, PublishCommit, ReleasePool, PoolSetAside, EndJob>;

// --- Works.

// Open the job's store; make it if `create` and it was never made. Ends in StoreOpened or
// OpenFailed.
struct OpenStore {
  std::string job;
  bool create = false;
};
// Average the contributions in this order, step, make the commit durable (with pools and
// evaluator). SKIPPED: no contributors; the version advances. SEED: exactly one. Ends in
// RoundApplied or ApplyFailed.
struct ApplyRound {
  std::string job;
  int fragment = 0;
  int64_t version = 0;
  RoundKind kind = RoundKind::kOuter;
  std::vector<Contributor> contributors;
  // Pool that evaluates after it merged this commit, or empty.
  std::string evaluator;
};
// Write the outer parameters of all fragments. cycle: the completed cycle (0 for the final one).
// step: the inner step of the cycle's last push. Ends in CheckpointWritten or CheckpointFailed.
struct WriteCheckpoint {
  std::string job;
  int64_t cycle = 0;
  int64_t step = 0;
  bool final = false;
};
using Work = std::variant<OpenStore, ApplyRound, WriteCheckpoint>;

struct Decision {
  std::vector<Record> records;
  std::optional<Answer> answer;
  std::vector<Notice> notices;
  std::vector<Work> works;

  bool empty() const {
    return records.empty() && !answer.has_value() && notices.empty() && works.empty();
  }
};

}  // namespace longhaul::coordinator

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
  // Gone because a round went on without it. Not kept.
  bool late = false;
};
struct StoreEvaluation {
  std::string job;
  // Who evaluated.
  std::string pool;
  Evaluation evaluation;
};
// The cycle of which a checkpoint is wanted. 0: none any more.
struct StoreCheckpointRequest {
  std::string job;
  int64_t cycle = 0;
};
// The job is forgotten, but for the fact that it was deleted; and then its files, too.
struct StoreDeleted {
  std::string job;
  // It was in.
  JobState state = JobState::kCompleted;
};
struct StoreRemoved {
  std::string job;
};
using Record = std::variant<StoreJobState, StorePlace, StoreEvaluation, StoreCheckpointRequest,
                            StoreDeleted, StoreRemoved>;

// --- Answers.

// The event is refused. `reason` is the stable word of ErrorInfo: JOB_UNKNOWN, JOB_EXISTS,
// JOB_ENDED, JOB_FINISHING, JOB_QUARANTINED, JOB_LIVE, CHECKPOINT_IN_USE, STORE_OPENING,
// POOL_UNKNOWN, POOL_LIVE, POOL_REPLACED, POOL_LOST, POOLS_FULL, NODES_DISAGREE, NODE_LIVE,
// NOT_ASSIGNED, NOT_READY, NOT_SEEDER, NOT_REQUIRED, FRAGMENT_UNKNOWN, KIND_MISMATCH,
// VERSION_MISMATCH (with `have`), ROUND_CLOSED.
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
// Answers AskCheckpoint: there will be one of this inner step.
struct PromiseCheckpoint {
  std::string job;
  int64_t step = 0;
};
using Answer = std::variant<Refuse, GrantLease, AdmitRank, PromiseCheckpoint>;

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
// The pool's lease ended and its place waits for it; or it came back, and nothing was missed.
struct PoolPresence {
  std::string job, pool;
  bool live = false;
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
using Notice =
    std::variant<RequestSeed, PublishCommit, ReleasePool, PoolPresence, PoolSetAside, EndJob>;

// --- Works.

// Open the job's store; make it if `create` and it was never made. Ends in StoreOpened or
// OpenFailed.
struct OpenStore {
  std::string job;
  bool create = false;
};
// Average the contributions in this order, step, make the commit durable (with pools and
// evaluator). SKIPPED: no contributors; the version advances. SEED: exactly one, or none: the
// checkpoint that the job begins with. Ends in RoundApplied or ApplyFailed.
struct ApplyRound {
  std::string job;
  int fragment = 0;
  int64_t version = 0;
  RoundKind kind = RoundKind::kOuter;
  std::vector<Contributor> contributors;
  // Pool that evaluates after it merged this commit, or empty.
  std::string evaluator;
};
// Write the outer parameters of all fragments. cycle: the completed cycle (0 for the final one, and
// for what a job leaves that was cancelled or failed). step: the inner step of the newest push in
// it. Of every fragment the version of the cycle, where it can still be made; else its newest. Ends in
// CheckpointWritten or CheckpointFailed.
struct WriteCheckpoint {
  std::string job;
  int64_t cycle = 0;
  int64_t step = 0;
  bool final = false;
};
// Remove the files of a deleted job. Ends in FilesRemoved or RemoveFailed.
struct RemoveFiles {
  std::string job;
};
using Work = std::variant<OpenStore, ApplyRound, WriteCheckpoint, RemoveFiles>;

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

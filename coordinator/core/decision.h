// What the coordinator's core decides in one Step, in the order in which it takes effect:
//
//   records   made durable, all in one transaction, before anything else of the decision
//   answer    to the event, at most one
//   notices   sent to those who watch, in their order
//   works     begun; each ends in an event
//
// Decisions take effect in the order of their Steps. A decision takes effect only after all of the
// earlier one has, except that works of the earlier one may still run. So no answer and no notice
// is sent that a restart would forget.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/schedule/round_id.h"
#include "coordinator/core/event.h"
#include "coordinator/core/recovery.h"
#include "coordinator/job/job_fault.h"
#include "coordinator/job/lifecycle.h"
#include "coordinator/pool/node_groups.h"

namespace longhaul::coordinator {

// --- Records.

// The new job of this event, as PENDING.
struct StoreNewJob {
  std::string job;
};
struct StoreJobState {
  std::string job;
  JobState state = JobState::kPending;
  std::optional<JobFault> fault;
};
// A pool's place in a job, by (job, ordinal). Written again whenever a field changes.
struct StorePlace {
  std::string job;
  RecoveredPlace place;
};
struct StoreEvaluation {
  std::string job;
  // The pool that evaluated.
  std::string pool;
  Evaluation evaluation;
  // Of the outer parameters, on the pool's own data: each pool has one of a version.
  bool of_site = false;
};
// The cycle of which a checkpoint was requested, or 0 if no request is open.
struct StoreCheckpointRequest {
  std::string job;
  int64_t cycle = 0;
};
// The job's pause. `by` and `reason` come with kPausing, `by` with kResumed.
struct StorePause {
  std::string job;
  PauseStage stage = PauseStage::kNone;
  std::string by = {}, reason = {};
};
// Removes the job. Only the fact that it was deleted is kept. StoreRemoved follows when its files
// are removed.
struct StoreDeleted {
  std::string job;
  // The state in which the job ended.
  JobState state = JobState::kCompleted;
  // Nobody asked: it had ended for CoordinatorOptions::ended_job_keep.
  bool expired = false;
};
struct StoreRemoved {
  std::string job;
};
// The job has ended and its log is removed, or holds nothing that a checkpoint could: no start of
// the coordinator looks at it again.
struct StoreCleanedUp {
  std::string job;
};
using Record =
    std::variant<StoreNewJob, StoreJobState, StorePlace, StoreEvaluation, StoreCheckpointRequest,
                 StorePause, StoreDeleted, StoreRemoved, StoreCleanedUp>;

// --- Answers.

// The event is refused. `reason` is the stable name in ErrorInfo: JOB_UNKNOWN, JOB_EXISTS,
// JOB_ENDED, JOB_FINISHING, JOB_QUARANTINED, JOB_PAUSED, JOB_LIVE, JOBS_FULL, CHECKPOINT_IN_USE,
// STORE_OPENING, POOL_UNKNOWN, POOL_LIVE, POOL_REPLACED, POOL_LOST, POOLS_FULL, NODES_DISAGREE,
// NODE_LIVE, NOT_ASSIGNED, NOT_READY, NOT_SEEDER, NOT_REQUIRED, FRAGMENT_UNKNOWN, KIND_MISMATCH,
// VERSION_MISMATCH (with `have`), ROUND_CLOSED.
struct Refuse {
  absl::Status status;
  std::string reason;
  // Set with VERSION_MISMATCH: the committed version.
  std::optional<int64_t> have = std::nullopt;
  // With POOL_LIVE, until the lease ends. With STORE_OPENING, a short time.
  absl::Duration retry_after = absl::ZeroDuration();
  // What to do about it, for people.
  std::string hint = {};
};

struct Assignment {
  std::string job;
  int ordinal = 0;
  // The pool's ranks are to stop, since the job is being paused.
  bool stop = false;
};
struct GrantLease {
  std::string pool, incarnation;
  absl::Duration lease;
  std::optional<Assignment> assignment;
  // Set for a pool of several nodes, whose ranks work under the incarnation of its group.
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
// Answers AskCheckpoint: there will be a checkpoint of this inner step.
struct PromiseCheckpoint {
  std::string job;
  int64_t step = 0;
};
using Answer = std::variant<Refuse, GrantLease, AdmitRank, PromiseCheckpoint>;

// Null: the event was not refused.
inline const Refuse* RefusalIn(const std::optional<Answer>& answer) {
  return answer.has_value() ? std::get_if<Refuse>(&*answer) : nullptr;
}

// --- Notices.

// To the open WatchPlan streams of the pool: SeedRequest. Ranks that come later learn of it from
// AdmitRank::seed.
struct RequestSeed {
  std::string job, pool;
};
// To all WatchPlan streams of the job: Commit.
struct PublishCommit {
  std::string job;
  RoundId round;
  // The contributors, in the order of the sum.
  std::vector<std::string> pools;
  std::string evaluator;
};
// To all WatchPlan streams of the job: RoundCall. Ranks that come later learn of it from
// FragmentView::called.
struct CallRound {
  std::string job;
  RoundId round;
};
// The pool does not work on this job any more: its streams end, and its next heartbeat tells it.
// `status` is the reason, with which the streams end.
struct ReleasePool {
  std::string job, pool, incarnation;
  absl::Status status;
};
// The pool's lease ended and its place is kept; or it came back before it missed a round.
struct PoolPresence {
  std::string job, pool;
  bool live = false;
};
// Rounds went on without the pool although it is live, so many since its last contribution.
struct PoolFellBehind {
  std::string job, pool;
  int64_t rounds = 0;
};
// guard.outer left the pool's contribution out of this commit, and counted the one before it in the
// fragment. `overruled`: it would have, but too few others contributed.
struct PoolLeftOut {
  std::string job, pool;
  RoundId round;
  std::string why;
  bool overruled = false;
};
// The pool cannot do this job now.
struct PoolSetAside {
  std::string job, pool;
  JobFault fault;
  absl::Duration retry_after;
};
// The end of the job, which is durable already: its WatchPlan streams get JobEnded, and its rounds
// are dropped. Also sent for QUARANTINED, which is not stored.
struct EndJob {
  std::string job;
  JobState state = JobState::kCompleted;
  std::optional<JobFault> fault;
};
// The checkpoint that an ended job is owed is not written yet, and why.
struct LastCheckpointMissing {
  std::string job, why;
};
// Nothing is left to do for the job, which has ended. Nothing of it stays in memory.
struct ForgetJob {
  std::string job;
};
using Notice =
    std::variant<RequestSeed, PublishCommit, CallRound, ReleasePool, PoolPresence, PoolFellBehind,
                 PoolLeftOut, PoolSetAside, EndJob, LastCheckpointMissing, ForgetJob>;

// --- Works.

// Opens the job's store. `create`: makes it if it was never made. Ends in StoreOpened or
// OpenFailed.
struct OpenStore {
  std::string job;
  bool create = false;
};
// With guard.outer: measures the contributions to a round, before it is applied. Ends in
// RoundMeasured or ApplyFailed.
struct MeasureRound {
  std::string job;
  RoundId round;
  std::vector<Contributor> contributors;
};
// Averages the contributions in this order, makes the outer step, and commits durably (with pools
// and evaluator). SKIPPED: no contributors; only the version changes. SEED: exactly one
// contributor, or none if the job begins with a checkpoint. Ends in RoundApplied or ApplyFailed.
struct ApplyRound {
  std::string job;
  RoundId round;
  std::vector<Contributor> contributors;
  // The pool that evaluates after it merged this commit, or empty.
  std::string evaluator;
  // Kept in the commit.
  OuterNote outer = {};
};
// Writes the outer parameters of all fragments. cycle: the completed cycle; 0 for the final
// checkpoint, and for that of a job that was cancelled, failed or is being paused. last: no later
// one follows. step: the inner step of the newest push in it. versions: by fragment; each is taken
// at its version if that can still be made, otherwise at its newest. Ends in CheckpointWritten or
// CheckpointFailed.
struct WriteCheckpoint {
  std::string job;
  int64_t cycle = 0;
  int64_t step = 0;
  bool final = false;
  bool last = false;
  std::vector<int64_t> versions = {};
};
// Closes the job's store. Ends in StoreClosed, when its last work and stream has ended.
struct CloseStore {
  std::string job;
};
// Removes the log and the snapshots of an ended job, whose store is closed. Ends in LogRemoved,
// LogNeeded or LogRemovalFailed.
struct RemoveLog {
  std::string job;
};
// Removes the files of a deleted job, whose store is closed. Ends in FilesRemoved or RemoveFailed.
struct RemoveFiles {
  std::string job;
};
using Work = std::variant<OpenStore, MeasureRound, ApplyRound, WriteCheckpoint, CloseStore,
                          RemoveLog, RemoveFiles>;

struct Decision {
  std::vector<Record> records;
  std::optional<Answer> answer;
  std::vector<Notice> notices;
  std::vector<Work> works;
};

}  // namespace longhaul::coordinator

// What the coordinator's core asks its shell to do. The shell performs the actions of one Step in
// their order; a Persist* action is durable before the next action begins, so nothing is answered
// or published that a restart would forget. Refuse, GrantLease and AdmitRank answer the event that
// was passed to Step; at most one of them per Step.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/schedule/round_kind.h"
#include "coordinator/job/job_options.h"
#include "coordinator/job/lifecycle.h"

namespace longhaul::coordinator {

// The event is refused. `reason` is the stable word of ErrorInfo: JOB_UNKNOWN, JOB_EXISTS,
// JOB_ENDED, JOB_FINISHING, POOL_UNKNOWN, POOL_LIVE, POOL_REPLACED, POOL_LOST, POOLS_FULL,
// NOT_ASSIGNED, NOT_READY, NOT_SEEDER, NOT_REQUIRED, FRAGMENT_UNKNOWN, KIND_MISMATCH,
// VERSION_MISMATCH (with `have`), ROUND_CLOSED.
struct Refuse {
  absl::Status status;
  std::string reason;
  std::optional<int64_t> have;                        // VERSION_MISMATCH: the committed version.
  absl::Duration retry_after = absl::ZeroDuration();  // POOL_LIVE: until the lease ends.
};

struct Assignment {
  std::string job;
  int ordinal = 0;
};
struct GrantLease {
  std::string pool, incarnation;
  absl::Duration lease;
  std::optional<Assignment> assignment;
};

// The job's state changed (or it is new: PENDING). Stored with the rest of its view, so with its
// fault.
struct PersistJobState {
  std::string job;
  JobState state = JobState::kPending;
};
// A pool's place in a job, by (job, ordinal); written again when start_step becomes known (its
// first rank is ready).
struct PersistParticipant {
  std::string job, pool, incarnation;
  int ordinal = 0;
  std::optional<int64_t> start_step;
};
// This place is given up for good: the pool left, was replaced, or missed a round.
struct PersistParticipantLeft {
  std::string job, pool, incarnation;
  int ordinal = 0;
};

// Answers RankReady with a Plan: start_step, ordinal, seed, and what the coordinator's accessors
// and the store tell.
struct AdmitRank {
  std::string job, pool, incarnation;
  int rank = 0;
  int64_t start_step = 0;
  int ordinal = 0;
  bool seed = false;
};
// To the open WatchPlan streams of the pool: SeedRequest. Ranks that come later learn it from
// AdmitRank::seed.
struct RequestSeed {
  std::string job, pool;
};

// A contributor by its place: where its bytes lie in the log.
struct Contributor {
  int ordinal = 0;
  std::string pool, incarnation;
};
// Average the contributions in this order, step, make the commit durable (with pools and
// evaluator), then RoundApplied. SKIPPED: no contributors; the version advances. SEED: exactly one.
struct ApplyRound {
  std::string job;
  int fragment = 0;
  int64_t version = 0;
  RoundKind kind = RoundKind::kOuter;
  std::vector<Contributor> contributors;
  std::string evaluator;  // Pool that evaluates after it merged this commit, or empty. Part of the
                          // durable commit.
};
// To all WatchPlan streams of the job: Commit.
struct PublishCommit {
  std::string job;
  int fragment = 0;
  int64_t version = 0;
  RoundKind kind = RoundKind::kOuter;
  std::vector<std::string> pools;  // Contributors, in the order of the sum.
  std::string evaluator;
};
// Snapshot the outer parameters of all fragments as they are now. cycle: the completed cycle (0 for
// the final one). step: the inner step of the cycle's last push. A final one is durable before the
// next action (EndJob).
struct WriteCheckpoint {
  std::string job;
  int64_t cycle = 0;
  int64_t step = 0;
  bool final = false;
};

// The job's end, durable already: JobEnded to its WatchPlan streams, its rounds are dropped.
struct EndJob {
  std::string job;
  JobState state = JobState::kCompleted;
  std::optional<JobFault> fault;
};
// The pool works on this job no more; its next heartbeat tells it. After EndJob, or when it came
// too late for the job.
struct ReleasePool {
  std::string pool, job;
};

using Action = std::variant<Refuse, GrantLease, PersistJobState, PersistParticipant,
                            PersistParticipantLeft, AdmitRank, RequestSeed, ApplyRound,
                            PublishCommit, WriteCheckpoint, EndJob, ReleasePool>;

}  // namespace longhaul::coordinator

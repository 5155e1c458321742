// What the coordinator stores about jobs besides their parameters, as values, and the interface
// that makes them durable. Messages are opaque bytes here; their readers own them.
//
// A time that has not come is absl::InfinitePast(). Times are kept to the microsecond.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/base/named_value.h"
#include "coordinator/job/lifecycle.h"

namespace longhaul {

struct JobRecord {
  std::string id, name;
  // Empty if there is none.
  std::string idempotency_token;
  JobState state = JobState::kPending;
  // Bytes of the caller's messages.
  std::string spec, status;
  absl::Time created = absl::InfinitePast();
  absl::Time started = absl::InfinitePast();
  absl::Time ended = absl::InfinitePast();
  // Later jobs have greater ones. In a NewJob 0 means the next one.
  int64_t order = 0;
  // Who submitted the job; empty if not known.
  std::string owner;
  // RunTime when it ended. Empty: it has not, or another program wrote its end, or it was adopted.
  // A NewJob has none.
  std::optional<absl::Duration> ended_run_time;
};

// Adds a job that must not exist yet.
struct NewJob {
  JobRecord job;
};

// Replaces these fields of a job.
struct JobUpdate {
  std::string job_id;
  JobState state = JobState::kPending;
  std::string status;
  absl::Time started = absl::InfinitePast();
  absl::Time ended = absl::InfinitePast();
  // With `ended`: RunTime then.
  absl::Duration run_time = absl::ZeroDuration();
};

// How long coordinators have run with this database, together. The age of an ended job goes by it:
// a clock that is set does not change it. One that is less than an earlier one changes nothing.
struct RunTime {
  absl::Duration total;
};

// Sets JobRecord::ended_run_time of all jobs that have ended and lack it.
struct EndedRunTime {
  absl::Duration run_time;
};

// A pool's place in a job. Replaces the record of the same job and ordinal.
struct ParticipantRecord {
  std::string job_id, pool, incarnation;
  // Unique in the job.
  int ordinal = 0;
  // Set when the pool's first rank is ready.
  std::optional<int64_t> start_step;
  bool left = false;
  // With `left`: a round was applied without the pool. Records of earlier versions always have it.
  bool missed = false;
  // If the pool drained, its place is kept until then. InfinitePast if the pool is not away.
  absl::Time return_until = absl::InfinitePast();
};

// Changes nothing if there is a record of the same job, pool, site, step and `final`.
struct EvaluationRecord {
  std::string job_id;
  int64_t step = 0, version = 0;
  double loss = 0;
  int64_t tokens = 0;
  bool final = false;
  // The pool whose own parameters were evaluated. Empty: the outer parameters.
  std::string pool = {};
  // By name. NaN is not kept.
  std::vector<NamedValue> metrics = {};
  // The pool on whose data the outer parameters were evaluated, where every pool evaluates them.
  // Empty: the one evaluation of them, or the pool's own parameters.
  std::string site = {};
};

// Replaces the job's counters.
struct JobCounters {
  std::string job_id;
  // Bytes of the caller's message.
  std::string counters;
};

// An event of the job. Events before `oldest` are removed.
struct EventRecord {
  std::string job_id;
  int64_t sequence = 0, oldest = 0;
  // Bytes of the caller's message.
  std::string event;
};

// The cycle of which a checkpoint was requested, or 0 if no request is open.
struct CheckpointRequestRecord {
  std::string job_id;
  int64_t cycle = 0;
};

// That a job is paused, or was resumed and has no pool yet. Replaces the record of the same job.
struct PauseRecord {
  std::string job_id;
  // kNone: removes the record.
  PauseStage stage = PauseStage::kNone;
  // Who paused it, when and why.
  absl::Time at = absl::InfinitePast();
  std::string by = {}, reason = {};
  // Once it is paused: bytes of the caller's message.
  std::string report = {};
};

// Removes the job and all records of it. Its id and name stay known as those of a deleted job.
struct DeletedJob {
  std::string job_id;
  absl::Time at;
};
// The files of a deleted job were removed.
struct RemovedJob {
  std::string job_id;
};

// The log of a job that has ended is removed, or will not be before the job is deleted.
struct CleanedUpJob {
  std::string job_id;
};

using MetaRecord = std::variant<NewJob, JobUpdate, ParticipantRecord, EvaluationRecord, JobCounters,
                                EventRecord, CheckpointRequestRecord, PauseRecord, DeletedJob,
                                RemovedJob, RunTime, EndedRunTime, CleanedUpJob>;

// Makes records durable. Implementations are thread-safe and block on the disk.
class MetaLog {
 public:
  virtual ~MetaLog() = default;
  // Writes the records in order, all or none, and returns when they are durable. ALREADY_EXISTS:
  // the id, the name, the (non-empty) token or the order of a new job is taken. NOT_FOUND: a record
  // names a job that does not exist. RESOURCE_EXHAUSTED: the disk is full. After each of these
  // errors nothing changed. Other errors: see meta_store.h.
  virtual absl::Status Commit(absl::Span<const MetaRecord> records) = 0;
};

}  // namespace longhaul

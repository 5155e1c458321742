// What the coordinator writes down of jobs besides their parameters, as values, and the seam that
// makes them durable. The messages are opaque bytes here: their readers own them.
//
// Times that have not come are absl::InfinitePast(). Times are kept to the microsecond.
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

namespace longhaul {

struct JobRecord {
  std::string id, name;
  std::string idempotency_token;  // Empty: none.
  int state = 0;                  // Number of v1::JobState.
  std::string spec, status;       // Bytes of the caller's messages.
  absl::Time created = absl::InfinitePast();
  absl::Time started = absl::InfinitePast();
  absl::Time ended = absl::InfinitePast();
  int64_t order = 0;  // Later jobs have greater ones. 0 in a NewJob: the next.
};

// The job must not be there yet.
struct NewJob {
  JobRecord job;
};

// Replaces these fields of a job.
struct JobUpdate {
  std::string job_id;
  int state = 0;
  std::string status;
  absl::Time started = absl::InfinitePast();
  absl::Time ended = absl::InfinitePast();
};

// A place in a job. Replaces the record of the same job and ordinal.
struct ParticipantRecord {
  std::string job_id, pool, incarnation;
  int ordinal = 0;                    // Unique in the job.
  std::optional<int64_t> start_step;  // Once its first rank is ready.
  bool left = false;
  // The pool drained: the place is kept for it until then. InfinitePast: it is not away.
  absl::Time return_until = absl::InfinitePast();
};

// Replaces the record of the same job, pool, step and `final`.
struct EvaluationRecord {
  std::string job_id;
  int64_t step = 0, version = 0;
  double loss = 0;
  int64_t tokens = 0;
  bool final = false;
  // Whose own parameters were evaluated. Empty: the outer ones.
  std::string pool = {};
  // By name. NaN is not kept.
  std::vector<NamedValue> metrics = {};
};

// Replaces the job's counters.
struct JobCounters {
  std::string job_id;
  std::string counters;  // Bytes of the caller's message.
};

// An event of the job; those before `oldest` are forgotten.
struct EventRecord {
  std::string job_id;
  int64_t sequence = 0, oldest = 0;
  std::string event;  // Bytes of the caller's message.
};

// The cycle of which a checkpoint is wanted. 0: none any more.
struct CheckpointRequestRecord {
  std::string job_id;
  int64_t cycle = 0;
};

// Removes the job and all records of it; its id and name stay known as those of a deleted one.
struct DeletedJob {
  std::string job_id;
  absl::Time at;
};
// The files of a deleted job are gone.
struct RemovedJob {
  std::string job_id;
};

using MetaRecord = std::variant<NewJob, JobUpdate, ParticipantRecord, EvaluationRecord, JobCounters,
                                EventRecord, CheckpointRequestRecord, DeletedJob, RemovedJob>;

// Where records become durable. Implementations are thread-safe and block on the disk.
class MetaLog {
 public:
  virtual ~MetaLog() = default;
  // Writes the records in order, all or nothing; returns when they are durable. ALREADY_EXISTS: the
  // id, the name, the (non-empty) token or the order of a new job is taken. NOT_FOUND: a record
  // names no job. RESOURCE_EXHAUSTED: the disk is full. After each of these nothing changed. Others
  // as meta_store.h says.
  virtual absl::Status Commit(absl::Span<const MetaRecord> records) = 0;
};

}  // namespace longhaul

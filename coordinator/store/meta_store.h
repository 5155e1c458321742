// What the coordinator knows of jobs besides their parameters, in one SQLite file. The messages are
// opaque bytes here: the services own them.
//
// Thread-safe (one mutex, one connection). Every call blocks on the disk; a call that changes
// something returns when the change is durable (WAL, synchronous = FULL). The file is locked while
// it is open, so that two coordinators cannot share a data folder. Errors of every call:
// RESOURCE_EXHAUSTED (disk full; nothing changed), DATA_LOSS marked fatal (input or output error,
// damaged file: fatal.h says what the caller must do), UNAVAILABLE (another process has the file).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace longhaul {

class SqliteDatabase;

// Times that have not come are absl::InfinitePast(). Times are kept to the microsecond.
struct JobRecord {
  std::string id, name;
  std::string idempotency_token;  // Empty: none.
  int state = 0;
  std::string spec, status;  // Bytes of the caller's messages.
  absl::Time created = absl::InfinitePast();
  absl::Time started = absl::InfinitePast();
  absl::Time ended = absl::InfinitePast();
  int64_t order = 0;  // Given by CreateJob: later jobs have greater ones.
};

struct ParticipantRecord {
  std::string job_id, pool, incarnation;
  int ordinal = 0;                    // Unique in the job.
  std::optional<int64_t> start_step;  // Once its first rank is ready.
  bool left = false;
};

struct EvaluationRecord {
  std::string job_id;
  int64_t step = 0, version = 0;
  double loss = 0;
  int64_t tokens = 0;
  bool final = false;
};

class MetaStore {
 public:
  // Opens or makes the file; `path` lies in a folder that exists. FAILED_PRECONDITION: a newer
  // program made it.
  static absl::StatusOr<std::unique_ptr<MetaStore>> Open(const std::string& path);
  ~MetaStore();

  // ALREADY_EXISTS: the id, the name or the (non-empty) idempotency token is taken; nothing
  // changed.
  absl::StatusOr<JobRecord> CreateJob(JobRecord job);
  // Replaces state, status, started and ended. NOT_FOUND.
  absl::Status UpdateJob(const JobRecord& job);
  // NOT_FOUND.
  absl::StatusOr<JobRecord> GetJob(const std::string& name_or_id);
  absl::StatusOr<JobRecord> FindJobByToken(const std::string& idempotency_token);
  // At most `limit` jobs with order < `before`, newest first.
  absl::StatusOr<std::vector<JobRecord>> ListJobs(int64_t before, int limit);

  // Inserts, or replaces the record of the same job and ordinal. NOT_FOUND: no such job.
  absl::Status PutParticipant(const ParticipantRecord& participant);
  // By ordinal.
  absl::StatusOr<std::vector<ParticipantRecord>> ListParticipants(const std::string& job_id);

  // Inserts, or replaces the record of the same job, step and `final`. NOT_FOUND: no such job.
  absl::Status PutEvaluation(const EvaluationRecord& evaluation);
  // By step, the final one last.
  absl::StatusOr<std::vector<EvaluationRecord>> ListEvaluations(const std::string& job_id);

  // Counters of a job (wire bytes): the caller's message. NOT_FOUND: no such job. Empty before the
  // first Put.
  absl::Status PutCounters(const std::string& job_id, const std::string& counters);
  absl::StatusOr<std::string> GetCounters(const std::string& job_id);

 private:
  explicit MetaStore(std::unique_ptr<SqliteDatabase> database);

  absl::Mutex mutex_;
  const std::unique_ptr<SqliteDatabase> database_ ABSL_PT_GUARDED_BY(mutex_);
};

}  // namespace longhaul

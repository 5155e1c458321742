// What the coordinator knows of jobs besides their parameters, in one SQLite file.
//
// Thread-safe (one mutex, one connection). Every call blocks on the disk. The file is locked while
// it is open, so that two coordinators cannot share a data folder. Errors of every call:
// RESOURCE_EXHAUSTED (disk full; nothing changed), DATA_LOSS marked fatal (input or output error,
// damaged file: fatal.h says what the caller must do), UNAVAILABLE (another process has the file).
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "coordinator/store/meta_records.h"

namespace longhaul {

class SqliteDatabase;

// Which job a record is of: what a list of all jobs can afford.
struct JobKey {
  std::string id, name;
  int state = 0;
  bool ended = false;
};

class MetaStore : public MetaLog {
 public:
  // Opens or makes the file; `path` lies in a folder that exists. Verifies what is there
  // (SqliteDatabase::Open). ":memory:": nothing is kept.
  // A file of schema 2 is brought up to date, which earlier programs then refuse.
  // FAILED_PRECONDITION: another version of the program made it.
  static absl::StatusOr<std::unique_ptr<MetaStore>> Open(const std::string& path);
  // The bytes of its file, to read only; `path` is for messages. Also one of schema 2, which
  // has no events, no requests and no deleted jobs.
  static absl::StatusOr<std::unique_ptr<MetaStore>> OpenImage(absl::string_view image,
                                                              const std::string& path);
  ~MetaStore() override;

  // One transaction, one sync (WAL, synchronous = FULL).
  absl::Status Commit(absl::Span<const MetaRecord> records) override;

  // An id goes before a name. NOT_FOUND.
  absl::StatusOr<JobRecord> GetJob(const std::string& name_or_id);
  // NOT_FOUND.
  absl::StatusOr<JobRecord> FindJobByToken(const std::string& idempotency_token);
  // At most `limit` jobs with order < `before`, newest first.
  absl::StatusOr<std::vector<JobRecord>> ListJobs(int64_t before, int limit);

  // What a start needs: neither reads the messages of jobs that ended.
  // Jobs whose `ended` is not set, oldest first.
  absl::StatusOr<std::vector<JobRecord>> ListUnended();
  // How many jobs are in each state that has any.
  absl::StatusOr<std::map<int, int64_t>> CountByState();
  // Every job, oldest first.
  absl::StatusOr<std::vector<JobKey>> ListKeys();

  // Of one job, by ordinal.
  absl::StatusOr<std::vector<ParticipantRecord>> ListParticipants(const std::string& job_id);
  // Of one job, by step, the final one last.
  absl::StatusOr<std::vector<EvaluationRecord>> ListEvaluations(const std::string& job_id);
  // Of one job, by pool and step: those of pools' own parameters; `loss` is that of the metrics.
  absl::StatusOr<std::vector<EvaluationRecord>> ListPoolEvaluations(const std::string& job_id);
  // Of one job. Empty: none were written. NOT_FOUND: no such job.
  absl::StatusOr<std::string> GetCounters(const std::string& job_id);
  // Of one job, oldest first: the bytes of each event.
  absl::StatusOr<std::vector<std::string>> ListEvents(const std::string& job_id);
  // Of one job. 0: none.
  absl::StatusOr<int64_t> GetCheckpointRequest(const std::string& job_id);
  // Id of the newest job of this name or id that was deleted. NOT_FOUND. The newest ones are known.
  absl::StatusOr<std::string> FindDeleted(const std::string& name_or_id);
  // Ids of deleted jobs whose files may be there.
  absl::StatusOr<std::vector<std::string>> ListUnremoved();

 private:
  explicit MetaStore(std::unique_ptr<SqliteDatabase> database);
  absl::Status WriteAll(absl::Span<const MetaRecord> records) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  absl::Mutex mutex_;
  const std::unique_ptr<SqliteDatabase> database_ ABSL_PT_GUARDED_BY(mutex_);
};

}  // namespace longhaul

// What the coordinator knows about jobs besides their parameters, in one SQLite file.
//
// Thread-safe (one mutex, one connection). Every call blocks on the disk. The file is locked while
// it is open, so two coordinators cannot share a data folder. Errors of every call:
// RESOURCE_EXHAUSTED (the disk is full; nothing changed), DATA_LOSS marked fatal (input or output
// error, or a damaged file; fatal.h says what the caller must do), UNAVAILABLE (another process has
// the file; of a read: another call has not returned for kSlowOperation, as the disk hangs).
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "coordinator/store/meta_records.h"
#include "coordinator/store/sqlite_database.h"

namespace longhaul {

// The fields of a job in a list of all jobs.
struct JobKey {
  std::string id, name;
  JobState state = JobState::kPending;
  absl::Time ended = absl::InfinitePast();
  std::optional<absl::Duration> ended_run_time;

  bool has_ended() const { return ended != absl::InfinitePast(); }
};

class MetaStore : public MetaLog {
 public:
  // Opens or makes the file; its folder exists. Verifies an existing file (SqliteDatabase::Open).
  // ":memory:": nothing is kept. A file that an earlier version wrote gets the tables that it
  // lacks; that version can still use it. FAILED_PRECONDITION: the file has another schema.
  // `operations`: as of SqliteDatabase.
  static absl::StatusOr<std::unique_ptr<MetaStore>> Open(const std::string& path,
                                                         SlowOperations* operations = nullptr);
  // Opens the bytes of a file, to read only. `path` is for messages. An earlier version may have
  // written them. FAILED_PRECONDITION: another schema.
  static absl::StatusOr<std::unique_ptr<MetaStore>> OpenImage(absl::string_view image,
                                                              const std::string& path);
  ~MetaStore() override;

  // One transaction, one sync (WAL, synchronous = FULL).
  absl::Status Commit(absl::Span<const MetaRecord> records) override;

  // An id has precedence over a name. NOT_FOUND: no such job.
  absl::StatusOr<JobRecord> GetJob(const std::string& name_or_id);
  // NOT_FOUND: no such job.
  absl::StatusOr<JobRecord> FindJobByToken(const std::string& idempotency_token);
  // Those of these ids whose job has ended, or was deleted, in their order. Reads no messages.
  absl::StatusOr<std::vector<std::string>> EndedOf(absl::Span<const std::string> ids);
  // Returns at most `limit` jobs with order < `before`, newest first. Reads no specs, which may be
  // large: `spec` is empty.
  absl::StatusOr<std::vector<JobRecord>> ListJobs(int64_t before, int limit);

  // The queries of a start. None reads the messages of jobs that ended.
  // Jobs whose `ended` is not set, oldest first.
  absl::StatusOr<std::vector<JobRecord>> ListUnended();
  // Every job, oldest first.
  absl::StatusOr<std::vector<JobKey>> ListKeys();
  // The number of jobs by state.
  absl::StatusOr<std::map<JobState, int64_t>> CountByState();
  // Jobs that have ended and have no CleanedUpJob, oldest first.
  absl::StatusOr<std::vector<JobKey>> ListNotCleanedUp();
  // At most `limit` jobs that ended at this RunTime or earlier, in the order of their ends.
  absl::StatusOr<std::vector<JobKey>> ListEndedBefore(absl::Duration run_time, int limit);
  // The newest RunTime. Zero if none was written.
  absl::StatusOr<absl::Duration> GetRunTime();

  // The participants of one job, by ordinal.
  absl::StatusOr<std::vector<ParticipantRecord>> ListParticipants(const std::string& job_id);
  // The evaluations of one job, by step, the final one last.
  absl::StatusOr<std::vector<EvaluationRecord>> ListEvaluations(const std::string& job_id);
  // The evaluations of the pools' own parameters in one job, by pool and step. `loss` is taken from
  // the metrics.
  absl::StatusOr<std::vector<EvaluationRecord>> ListPoolEvaluations(const std::string& job_id);
  // The same, of evaluations of the outer parameters on each pool's own data, by step, the final
  // one last, and site.
  absl::StatusOr<std::vector<EvaluationRecord>> ListSiteEvaluations(const std::string& job_id);
  // The counters of one job. Empty if none were written. NOT_FOUND: no such job.
  absl::StatusOr<std::string> GetCounters(const std::string& job_id);
  // The events of one job, oldest first: the bytes of each.
  absl::StatusOr<std::vector<std::string>> ListEvents(const std::string& job_id);
  // The cycle of the open checkpoint request of one job, or 0.
  absl::StatusOr<int64_t> GetCheckpointRequest(const std::string& job_id);
  // kNone: the job is not paused.
  absl::StatusOr<PauseRecord> GetPause(const std::string& job_id);
  // The id of the newest deleted job with this name or id. NOT_FOUND: no such job; only the newest
  // deleted jobs are remembered.
  absl::StatusOr<std::string> FindDeleted(const std::string& name_or_id);
  // The ids of deleted jobs whose files may still exist.
  absl::StatusOr<std::vector<std::string>> ListUnremoved();

 private:
  MetaStore(std::unique_ptr<SqliteDatabase> database, std::string path);
  absl::StatusOr<std::vector<SqlRow>> Query(absl::string_view sql,
                                            const std::vector<SqlValue>& parameters);
  absl::Status WriteAll(absl::Span<const MetaRecord> records) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // Waits until no other call uses the database. UNAVAILABLE: `patience` was not enough.
  absl::Status TakeTurn(absl::Duration patience) ABSL_LOCKS_EXCLUDED(turn_mutex_);
  void EndTurn() ABSL_LOCKS_EXCLUDED(turn_mutex_);

  const std::string path_;
  absl::Mutex turn_mutex_;
  bool taken_ ABSL_GUARDED_BY(turn_mutex_) = false;
  // Held by who has the turn.
  absl::Mutex mutex_;
  const std::unique_ptr<SqliteDatabase> database_ ABSL_PT_GUARDED_BY(mutex_);
};

}  // namespace longhaul

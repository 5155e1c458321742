#include "coordinator/store/meta_store.h"

#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "coordinator/store/sqlite_database.h"

namespace longhaul {
namespace {

constexpr int64_t kSchemaVersion = 1;

// Names and tokens are blobs as well, so that nothing but their bytes decides what is equal.
constexpr char kSchema[] = R"sql(
BEGIN;
CREATE TABLE job (
  position INTEGER PRIMARY KEY AUTOINCREMENT,
  id BLOB NOT NULL UNIQUE, name BLOB NOT NULL UNIQUE, token BLOB UNIQUE,
  state INTEGER NOT NULL, spec BLOB NOT NULL, status BLOB NOT NULL,
  created INTEGER, started INTEGER, ended INTEGER,
  counters BLOB NOT NULL DEFAULT x'');
CREATE TABLE participant (
  job BLOB NOT NULL REFERENCES job (id), ordinal INTEGER NOT NULL,
  pool BLOB NOT NULL, incarnation BLOB NOT NULL, start_step INTEGER, departed INTEGER NOT NULL,
  PRIMARY KEY (job, ordinal)) WITHOUT ROWID;
CREATE TABLE evaluation (
  job BLOB NOT NULL REFERENCES job (id), step INTEGER NOT NULL, final INTEGER NOT NULL,
  version INTEGER NOT NULL, loss REAL, tokens INTEGER NOT NULL,
  PRIMARY KEY (job, step, final)) WITHOUT ROWID;
PRAGMA user_version = 1;
COMMIT;
)sql";

#define LH_JOB_COLUMNS "position, id, name, token, state, spec, status, created, started, ended"

SqlValue StepValue(const std::optional<int64_t>& step) {
  if (!step.has_value()) return std::monostate();
  return *step;
}
SqlValue TimeValue(absl::Time time) {
  if (time == absl::InfinitePast()) return std::monostate();
  return absl::ToUnixMicros(time);
}
absl::Time TimeOf(const SqlValue& value) {
  const auto* micros = std::get_if<int64_t>(&value);
  return micros == nullptr ? absl::InfinitePast() : absl::FromUnixMicros(*micros);
}
std::string BytesOf(const SqlValue& value) {
  const auto* bytes = std::get_if<std::string>(&value);
  return bytes == nullptr ? "" : *bytes;
}
int64_t IntegerOf(const SqlValue& value) {
  const auto* integer = std::get_if<int64_t>(&value);
  return integer == nullptr ? 0 : *integer;
}

JobRecord JobOf(const SqlRow& row) {
  JobRecord job;
  job.order = IntegerOf(row[0]);
  job.id = BytesOf(row[1]);
  job.name = BytesOf(row[2]);
  job.idempotency_token = BytesOf(row[3]);
  job.state = IntegerOf(row[4]);
  job.spec = BytesOf(row[5]);
  job.status = BytesOf(row[6]);
  job.created = TimeOf(row[7]);
  job.started = TimeOf(row[8]);
  job.ended = TimeOf(row[9]);
  return job;
}

absl::Status NoJob(absl::string_view which) {
  return absl::NotFoundError(absl::StrCat("no job ", which));
}

absl::StatusOr<JobRecord> OneJob(const absl::StatusOr<std::vector<SqlRow>>& rows,
                                 absl::string_view which) {
  LH_RETURN_IF_ERROR(rows.status());
  if (rows->empty()) return NoJob(which);
  return JobOf(rows->front());
}

// Makes the tables in a new file. An older schema would be migrated here, in one transaction for
// each step.
absl::Status PrepareSchema(SqliteDatabase& database, const std::string& path) {
  LH_ASSIGN_OR_RETURN(const std::vector<SqlRow> rows, database.Query("PRAGMA user_version", {}));
  const int64_t version = IntegerOf(rows[0][0]);
  if (version == 0) return database.Execute(kSchema);
  if (version == kSchemaVersion) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat(path, " has schema ", version, "; this program knows ", kSchemaVersion));
}

}  // namespace

MetaStore::MetaStore(std::unique_ptr<SqliteDatabase> database) : database_(std::move(database)) {}
MetaStore::~MetaStore() = default;

absl::StatusOr<std::unique_ptr<MetaStore>> MetaStore::Open(const std::string& path) {
  LH_ASSIGN_OR_RETURN(std::unique_ptr<SqliteDatabase> database, SqliteDatabase::Open(path));
  LH_RETURN_IF_ERROR(PrepareSchema(*database, path));
  return absl::WrapUnique(new MetaStore(std::move(database)));
}

absl::StatusOr<JobRecord> MetaStore::CreateJob(JobRecord job) {
  absl::MutexLock lock(&mutex_);
  const SqlValue token =
      job.idempotency_token.empty() ? SqlValue() : SqlValue(job.idempotency_token);
  LH_ASSIGN_OR_RETURN(
      const std::vector<SqlRow> rows,
      database_->Query("INSERT INTO job (id, name, token, state, spec, status, created, started,"
                       " ended) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING position",
                       {job.id, job.name, token, int64_t{job.state}, job.spec, job.status,
                        TimeValue(job.created), TimeValue(job.started), TimeValue(job.ended)}));
  job.order = IntegerOf(rows[0][0]);
  return job;
}

absl::Status MetaStore::UpdateJob(const JobRecord& job) {
  absl::MutexLock lock(&mutex_);
  LH_RETURN_IF_ERROR(
      database_
          ->Query("UPDATE job SET state = ?, status = ?, started = ?, ended = ? WHERE id = ?",
                  {int64_t{job.state}, job.status, TimeValue(job.started), TimeValue(job.ended),
                   job.id})
          .status());
  return database_->Changes() == 1 ? absl::OkStatus() : NoJob(job.id);
}

absl::StatusOr<JobRecord> MetaStore::GetJob(const std::string& name_or_id) {
  absl::MutexLock lock(&mutex_);
  // An id goes before a name.
  return OneJob(database_->Query("SELECT " LH_JOB_COLUMNS " FROM job WHERE id = ?1 OR name = ?1"
                                 " ORDER BY id <> ?1 LIMIT 1",
                                 {name_or_id}),
                name_or_id);
}

absl::StatusOr<JobRecord> MetaStore::FindJobByToken(const std::string& idempotency_token) {
  absl::MutexLock lock(&mutex_);
  return OneJob(
      database_->Query("SELECT " LH_JOB_COLUMNS " FROM job WHERE token = ?", {idempotency_token}),
      absl::StrCat("of token ", idempotency_token));
}

absl::StatusOr<std::vector<JobRecord>> MetaStore::ListJobs(int64_t before, int limit) {
  absl::MutexLock lock(&mutex_);
  LH_ASSIGN_OR_RETURN(const std::vector<SqlRow> rows,
                      database_->Query("SELECT " LH_JOB_COLUMNS " FROM job WHERE position < ?"
                                       " ORDER BY position DESC LIMIT ?",
                                       {before, int64_t{limit}}));
  std::vector<JobRecord> jobs;
  for (const SqlRow& row : rows) jobs.push_back(JobOf(row));
  return jobs;
}

absl::Status MetaStore::PutParticipant(const ParticipantRecord& participant) {
  absl::MutexLock lock(&mutex_);
  return database_
      ->Query(
          "INSERT INTO participant (job, ordinal, pool, incarnation, start_step, departed)"
          " VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (job, ordinal) DO UPDATE SET"
          " pool = excluded.pool, incarnation = excluded.incarnation,"
          " start_step = excluded.start_step, departed = excluded.departed",
          {participant.job_id, int64_t{participant.ordinal}, participant.pool,
           participant.incarnation, StepValue(participant.start_step), int64_t{participant.left}})
      .status();
}

absl::StatusOr<std::vector<ParticipantRecord>> MetaStore::ListParticipants(
    const std::string& job_id) {
  absl::MutexLock lock(&mutex_);
  LH_ASSIGN_OR_RETURN(
      const std::vector<SqlRow> rows,
      database_->Query("SELECT ordinal, pool, incarnation, start_step, departed FROM participant"
                       " WHERE job = ? ORDER BY ordinal",
                       {job_id}));
  std::vector<ParticipantRecord> participants;
  for (const SqlRow& row : rows) {
    ParticipantRecord& participant = participants.emplace_back();
    participant.job_id = job_id;
    participant.ordinal = IntegerOf(row[0]);
    participant.pool = BytesOf(row[1]);
    participant.incarnation = BytesOf(row[2]);
    if (const auto* start = std::get_if<int64_t>(&row[3])) participant.start_step = *start;
    participant.left = IntegerOf(row[4]) != 0;
  }
  return participants;
}

absl::Status MetaStore::PutEvaluation(const EvaluationRecord& evaluation) {
  absl::MutexLock lock(&mutex_);
  return database_
      ->Query(
          "INSERT INTO evaluation (job, step, final, version, loss, tokens)"
          " VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (job, step, final) DO UPDATE SET"
          " version = excluded.version, loss = excluded.loss, tokens = excluded.tokens",
          {evaluation.job_id, evaluation.step, int64_t{evaluation.final}, evaluation.version,
           evaluation.loss, evaluation.tokens})
      .status();
}

absl::StatusOr<std::vector<EvaluationRecord>> MetaStore::ListEvaluations(
    const std::string& job_id) {
  absl::MutexLock lock(&mutex_);
  LH_ASSIGN_OR_RETURN(const std::vector<SqlRow> rows,
                      database_->Query("SELECT step, final, version, loss, tokens FROM evaluation"
                                       " WHERE job = ? ORDER BY step, final",
                                       {job_id}));
  std::vector<EvaluationRecord> evaluations;
  for (const SqlRow& row : rows) {
    EvaluationRecord& evaluation = evaluations.emplace_back();
    evaluation.job_id = job_id;
    evaluation.step = IntegerOf(row[0]);
    evaluation.final = IntegerOf(row[1]) != 0;
    evaluation.version = IntegerOf(row[2]);
    // SQLite stores NaN, the loss of a run that diverged, as NULL.
    const auto* loss = std::get_if<double>(&row[3]);
    evaluation.loss = loss == nullptr ? std::numeric_limits<double>::quiet_NaN() : *loss;
    evaluation.tokens = IntegerOf(row[4]);
  }
  return evaluations;
}

absl::Status MetaStore::PutCounters(const std::string& job_id, const std::string& counters) {
  absl::MutexLock lock(&mutex_);
  LH_RETURN_IF_ERROR(
      database_->Query("UPDATE job SET counters = ? WHERE id = ?", {counters, job_id}).status());
  return database_->Changes() == 1 ? absl::OkStatus() : NoJob(job_id);
}

absl::StatusOr<std::string> MetaStore::GetCounters(const std::string& job_id) {
  absl::MutexLock lock(&mutex_);
  LH_ASSIGN_OR_RETURN(const std::vector<SqlRow> rows,
                      database_->Query("SELECT counters FROM job WHERE id = ?", {job_id}));
  if (rows.empty()) return NoJob(job_id);
  return BytesOf(rows[0][0]);
}

}  // namespace longhaul

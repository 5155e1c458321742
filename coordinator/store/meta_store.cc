#include "coordinator/store/meta_store.h"

#include <cmath>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "coordinator/store/sqlite_database.h"

namespace longhaul {
namespace {

constexpr int64_t kSchemaVersion = 2;

// Names and tokens are blobs, so that only their bytes decide whether two are equal. Large columns
// come last in a row; they have pages of their own, which lists do not read.
constexpr char kSchema[] = R"sql(
BEGIN;
CREATE TABLE job (
  position INTEGER PRIMARY KEY AUTOINCREMENT,
  id BLOB NOT NULL UNIQUE, name BLOB NOT NULL UNIQUE, token BLOB UNIQUE,
  state INTEGER NOT NULL, created INTEGER, started INTEGER, ended INTEGER,
  status BLOB NOT NULL, spec BLOB NOT NULL);
CREATE INDEX job_state ON job (state);
CREATE INDEX job_unended ON job (position) WHERE ended IS NULL;
CREATE TABLE participant (
  job BLOB NOT NULL REFERENCES job (id), ordinal INTEGER NOT NULL,
  pool BLOB NOT NULL, incarnation BLOB NOT NULL, start_step INTEGER, departed INTEGER NOT NULL,
  return_until INTEGER,
  PRIMARY KEY (job, ordinal)) WITHOUT ROWID;
CREATE TABLE evaluation (
  job BLOB NOT NULL REFERENCES job (id), step INTEGER NOT NULL, final INTEGER NOT NULL,
  version INTEGER NOT NULL, loss REAL, tokens INTEGER NOT NULL,
  PRIMARY KEY (job, step, final)) WITHOUT ROWID;
CREATE TABLE counters (
  job BLOB NOT NULL PRIMARY KEY REFERENCES job (id), counters BLOB NOT NULL);
PRAGMA user_version = 2;
COMMIT;
)sql";

// How many deleted jobs are remembered.
constexpr int64_t kDeletedMax = 10000;
// Tables that later versions of the program added. Earlier versions of the same schema ignore them,
// so a coordinator may be downgraded. Only a change that earlier versions would misread needs a new
// schema version.
constexpr char kAdditions[] = R"sql(
CREATE TABLE IF NOT EXISTS event (
  job BLOB NOT NULL REFERENCES job (id), sequence INTEGER NOT NULL, event BLOB NOT NULL,
  PRIMARY KEY (job, sequence)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS checkpoint_request (
  job BLOB NOT NULL PRIMARY KEY REFERENCES job (id), cycle INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS deleted (
  position INTEGER PRIMARY KEY AUTOINCREMENT, id BLOB NOT NULL UNIQUE, name BLOB NOT NULL,
  at INTEGER, removed INTEGER NOT NULL);
CREATE INDEX IF NOT EXISTS deleted_name ON deleted (name);
CREATE TABLE IF NOT EXISTS measurement (
  job BLOB NOT NULL REFERENCES job (id), pool BLOB NOT NULL, step INTEGER NOT NULL,
  final INTEGER NOT NULL, name BLOB NOT NULL, value REAL, version INTEGER NOT NULL,
  tokens INTEGER NOT NULL,
  PRIMARY KEY (job, pool, step, final, name)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS owner (
  job BLOB NOT NULL PRIMARY KEY REFERENCES job (id) ON DELETE CASCADE, owner BLOB NOT NULL)
  WITHOUT ROWID;
)sql";

#define LH_STORED_COLUMNS "position, id, name, token, state, created, started, ended, status, spec"
#define LH_JOB_COLUMNS LH_STORED_COLUMNS ", (SELECT owner FROM owner WHERE owner.job = job.id)"

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
std::string BlobOf(const SqlValue& value) {
  const auto* bytes = std::get_if<std::string>(&value);
  return bytes == nullptr ? "" : *bytes;
}
int64_t IntegerOf(const SqlValue& value) {
  const auto* integer = std::get_if<int64_t>(&value);
  return integer == nullptr ? 0 : *integer;
}
// SQLite stores NaN, the loss of a run that diverged, as NULL.
double RealOf(const SqlValue& value) {
  const auto* real = std::get_if<double>(&value);
  return real == nullptr ? std::numeric_limits<double>::quiet_NaN() : *real;
}

JobRecord JobOf(const SqlRow& row) {
  JobRecord job;
  job.order = IntegerOf(row[0]);
  job.id = BlobOf(row[1]);
  job.name = BlobOf(row[2]);
  job.idempotency_token = BlobOf(row[3]);
  job.state = IntegerOf(row[4]);
  job.created = TimeOf(row[5]);
  job.started = TimeOf(row[6]);
  job.ended = TimeOf(row[7]);
  job.status = BlobOf(row[8]);
  job.spec = BlobOf(row[9]);
  job.owner = BlobOf(row[10]);
  return job;
}

absl::Status NoJob(absl::string_view which) {
  return absl::NotFoundError(absl::StrCat("no job ", which));
}

std::vector<JobRecord> JobsOf(const std::vector<SqlRow>& rows) {
  std::vector<JobRecord> jobs;
  for (const SqlRow& row : rows) jobs.push_back(JobOf(row));
  return jobs;
}

absl::StatusOr<JobRecord> OneJob(const absl::StatusOr<std::vector<SqlRow>>& rows,
                                 absl::string_view which) {
  LH_RETURN_IF_ERROR(rows.status());
  if (rows->empty()) return NoJob(which);
  return JobOf(rows->front());
}

absl::StatusOr<int64_t> SchemaOf(SqliteDatabase& database) {
  LH_ASSIGN_OR_RETURN(const std::vector<SqlRow> rows, database.Query("PRAGMA user_version", {}));
  return IntegerOf(rows[0][0]);
}

absl::Status OtherSchema(const std::string& path, int64_t version) {
  return absl::FailedPreconditionError(
      absl::StrCat(path, " has schema ", version, "; this program has schema ", kSchemaVersion,
                   ": it was made by ", version < kSchemaVersion ? "an older" : "a newer",
                   " version of the program, which alone can use it"));
}

// Makes the tables in a new file, or adds those that a file of an earlier version lacks.
absl::Status PrepareSchema(SqliteDatabase& database, const std::string& path) {
  LH_ASSIGN_OR_RETURN(const int64_t version, SchemaOf(database));
  if (version != 0 && version != kSchemaVersion) return OtherSchema(path, version);
  if (version == 0) LH_RETURN_IF_ERROR(database.Execute(kSchema));
  return database.Execute(kAdditions);
}

absl::Status Write(SqliteDatabase& database, const NewJob& record) {
  const JobRecord& job = record.job;
  const SqlValue token =
      job.idempotency_token.empty() ? SqlValue() : SqlValue(job.idempotency_token);
  const SqlValue order = job.order == 0 ? SqlValue() : SqlValue(job.order);
  LH_RETURN_IF_ERROR(
      database
          .Query("INSERT INTO job (" LH_STORED_COLUMNS ") VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                 {order, job.id, job.name, token, int64_t{job.state}, TimeValue(job.created),
                  TimeValue(job.started), TimeValue(job.ended), job.status, job.spec})
          .status());
  if (job.owner.empty()) return absl::OkStatus();
  return database.Query("INSERT INTO owner (job, owner) VALUES (?, ?)", {job.id, job.owner})
      .status();
}

absl::Status Write(SqliteDatabase& database, const JobUpdate& update) {
  LH_RETURN_IF_ERROR(
      database
          .Query("UPDATE job SET state = ?, status = ?, started = ?, ended = ? WHERE id = ?",
                 {int64_t{update.state}, update.status, TimeValue(update.started),
                  TimeValue(update.ended), update.job_id})
          .status());
  return database.Changes() == 1 ? absl::OkStatus() : NoJob(update.job_id);
}

absl::Status Write(SqliteDatabase& database, const ParticipantRecord& participant) {
  return database
      .Query(
          "INSERT INTO participant (job, ordinal, pool, incarnation, start_step, departed,"
          " return_until) VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (job, ordinal) DO UPDATE SET"
          " pool = excluded.pool, incarnation = excluded.incarnation,"
          " start_step = excluded.start_step, departed = excluded.departed,"
          " return_until = excluded.return_until",
          {participant.job_id, int64_t{participant.ordinal}, participant.pool,
           participant.incarnation, StepValue(participant.start_step), int64_t{participant.left},
           TimeValue(participant.return_until)})
      .status();
}

absl::Status WriteMetric(SqliteDatabase& database, const EvaluationRecord& evaluation,
                         const NamedValue& metric) {
  return database
      .Query(
          "INSERT INTO measurement (job, pool, step, final, name, value, version, tokens)"
          " VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (job, pool, step, final, name) DO UPDATE"
          " SET value = excluded.value, version = excluded.version, tokens = excluded.tokens",
          {evaluation.job_id, evaluation.pool, evaluation.step, int64_t{evaluation.final},
           metric.name, metric.value, evaluation.version, evaluation.tokens})
      .status();
}

absl::Status Write(SqliteDatabase& database, const EvaluationRecord& evaluation) {
  for (const NamedValue& metric : evaluation.metrics)
    if (std::isfinite(metric.value)) LH_RETURN_IF_ERROR(WriteMetric(database, evaluation, metric));
  if (!evaluation.pool.empty()) return WriteMetric(database, evaluation, {"loss", evaluation.loss});
  return database
      .Query(
          "INSERT INTO evaluation (job, step, final, version, loss, tokens)"
          " VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (job, step, final) DO UPDATE SET"
          " version = excluded.version, loss = excluded.loss, tokens = excluded.tokens",
          {evaluation.job_id, evaluation.step, int64_t{evaluation.final}, evaluation.version,
           evaluation.loss, evaluation.tokens})
      .status();
}

absl::Status Write(SqliteDatabase& database, const JobCounters& counters) {
  return database
      .Query(
          "INSERT INTO counters (job, counters) VALUES (?, ?)"
          " ON CONFLICT (job) DO UPDATE SET counters = excluded.counters",
          {counters.job_id, counters.counters})
      .status();
}

absl::Status Write(SqliteDatabase& database, const EventRecord& event) {
  LH_RETURN_IF_ERROR(
      database
          .Query("INSERT OR REPLACE INTO event (job, sequence, event) VALUES (?, ?, ?)",
                 {event.job_id, event.sequence, event.event})
          .status());
  return database
      .Query("DELETE FROM event WHERE job = ? AND sequence < ?", {event.job_id, event.oldest})
      .status();
}

absl::Status Write(SqliteDatabase& database, const CheckpointRequestRecord& request) {
  if (request.cycle == 0) {
    return database.Query("DELETE FROM checkpoint_request WHERE job = ?", {request.job_id})
        .status();
  }
  return database
      .Query("INSERT OR REPLACE INTO checkpoint_request (job, cycle) VALUES (?, ?)",
             {request.job_id, request.cycle})
      .status();
}

absl::Status Write(SqliteDatabase& database, const DeletedJob& job) {
  LH_RETURN_IF_ERROR(database
                         .Query("INSERT INTO deleted (id, name, at, removed)"
                                " SELECT id, name, ?, 0 FROM job WHERE id = ?",
                                {TimeValue(job.at), job.job_id})
                         .status());
  if (database.Changes() != 1) return NoJob(job.job_id);
  for (const char* const statement :
       {"DELETE FROM event WHERE job = ?", "DELETE FROM checkpoint_request WHERE job = ?",
        "DELETE FROM measurement WHERE job = ?", "DELETE FROM counters WHERE job = ?",
        "DELETE FROM evaluation WHERE job = ?", "DELETE FROM participant WHERE job = ?",
        "DELETE FROM job WHERE id = ?"}) {
    LH_RETURN_IF_ERROR(database.Query(statement, {job.job_id}).status());
  }
  // The oldest deleted jobs are forgotten.
  return database
      .Query(
          "DELETE FROM deleted WHERE removed = 1 AND"
          " position <= (SELECT MAX(position) FROM deleted) - ?",
          {kDeletedMax})
      .status();
}

absl::Status Write(SqliteDatabase& database, const RemovedJob& job) {
  return database.Query("UPDATE deleted SET removed = 1 WHERE id = ?", {job.job_id}).status();
}

}  // namespace

MetaStore::MetaStore(std::unique_ptr<SqliteDatabase> database) : database_(std::move(database)) {}
MetaStore::~MetaStore() = default;

absl::StatusOr<std::unique_ptr<MetaStore>> MetaStore::Open(const std::string& path) {
  LH_ASSIGN_OR_RETURN(std::unique_ptr<SqliteDatabase> database, SqliteDatabase::Open(path));
  LH_RETURN_IF_ERROR(PrepareSchema(*database, path));
  return absl::WrapUnique(new MetaStore(std::move(database)));
}

absl::StatusOr<std::unique_ptr<MetaStore>> MetaStore::OpenImage(absl::string_view image,
                                                                const std::string& path) {
  LH_ASSIGN_OR_RETURN(std::unique_ptr<SqliteDatabase> database,
                      SqliteDatabase::OpenImage(image, path));
  LH_ASSIGN_OR_RETURN(const int64_t version, SchemaOf(*database));
  if (version != kSchemaVersion) return OtherSchema(path, version);
  // An earlier version of the program did not write this table.
  LH_ASSIGN_OR_RETURN(const std::vector<SqlRow> owners,
                      database->Query("SELECT 1 FROM sqlite_master WHERE name = 'owner'", {}));
  if (owners.empty()) LH_RETURN_IF_ERROR(database->Execute("CREATE TEMP TABLE owner (job, owner)"));
  return absl::WrapUnique(new MetaStore(std::move(database)));
}

absl::Status MetaStore::WriteAll(absl::Span<const MetaRecord> records) {
  for (const MetaRecord& record : records) {
    LH_RETURN_IF_ERROR(
        std::visit([this](const auto& known)
                       ABSL_NO_THREAD_SAFETY_ANALYSIS { return Write(*database_, known); },
                   record));
  }
  return absl::OkStatus();
}

absl::Status MetaStore::Commit(absl::Span<const MetaRecord> records) {
  if (records.empty()) return absl::OkStatus();
  absl::MutexLock lock(&mutex_);
  LH_RETURN_IF_ERROR(database_->Query("BEGIN IMMEDIATE", {}).status());
  absl::Status written = WriteAll(records);
  if (written.ok()) written = database_->Query("COMMIT", {}).status();
  if (!written.ok()) database_->Rollback();
  return written;
}

absl::StatusOr<JobRecord> MetaStore::GetJob(const std::string& name_or_id) {
  absl::MutexLock lock(&mutex_);
  // An id has precedence over a name.
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
  return JobsOf(rows);
}

absl::StatusOr<std::vector<JobRecord>> MetaStore::ListUnended() {
  absl::MutexLock lock(&mutex_);
  LH_ASSIGN_OR_RETURN(
      const std::vector<SqlRow> rows,
      database_->Query("SELECT " LH_JOB_COLUMNS " FROM job WHERE ended IS NULL ORDER BY position",
                       {}));
  return JobsOf(rows);
}

absl::StatusOr<std::map<int, int64_t>> MetaStore::CountByState() {
  absl::MutexLock lock(&mutex_);
  LH_ASSIGN_OR_RETURN(const std::vector<SqlRow> rows,
                      database_->Query("SELECT state, COUNT(*) FROM job GROUP BY state", {}));
  std::map<int, int64_t> counts;
  for (const SqlRow& row : rows) counts[IntegerOf(row[0])] = IntegerOf(row[1]);
  return counts;
}

absl::StatusOr<std::vector<JobKey>> MetaStore::ListKeys() {
  absl::MutexLock lock(&mutex_);
  LH_ASSIGN_OR_RETURN(
      const std::vector<SqlRow> rows,
      database_->Query("SELECT id, name, state, ended IS NOT NULL FROM job ORDER BY position", {}));
  std::vector<JobKey> keys;
  for (const SqlRow& row : rows) {
    keys.push_back({BlobOf(row[0]), BlobOf(row[1]), static_cast<int>(IntegerOf(row[2])),
                    IntegerOf(row[3]) != 0});
  }
  return keys;
}

absl::StatusOr<std::vector<ParticipantRecord>> MetaStore::ListParticipants(
    const std::string& job_id) {
  absl::MutexLock lock(&mutex_);
  LH_ASSIGN_OR_RETURN(
      const std::vector<SqlRow> rows,
      database_->Query("SELECT ordinal, pool, incarnation, start_step, departed, return_until"
                       " FROM participant WHERE job = ? ORDER BY ordinal",
                       {job_id}));
  std::vector<ParticipantRecord> participants;
  for (const SqlRow& row : rows) {
    ParticipantRecord& participant = participants.emplace_back();
    participant.job_id = job_id;
    participant.ordinal = IntegerOf(row[0]);
    participant.pool = BlobOf(row[1]);
    participant.incarnation = BlobOf(row[2]);
    if (const auto* start = std::get_if<int64_t>(&row[3])) participant.start_step = *start;
    participant.left = IntegerOf(row[4]) != 0;
    participant.return_until = TimeOf(row[5]);
  }
  return participants;
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
    evaluation.loss = RealOf(row[3]);
    evaluation.tokens = IntegerOf(row[4]);
  }
  LH_ASSIGN_OR_RETURN(const std::vector<SqlRow> metrics,
                      database_->Query("SELECT step, final, name, value FROM measurement"
                                       " WHERE job = ? AND pool = ? ORDER BY step, final, name",
                                       {job_id, std::string()}));
  auto evaluation = evaluations.begin();
  for (const SqlRow& row : metrics) {
    const auto key = std::make_pair(IntegerOf(row[0]), IntegerOf(row[1]) != 0);
    while (evaluation != evaluations.end() &&
           std::make_pair(evaluation->step, evaluation->final) < key)
      ++evaluation;
    if (evaluation == evaluations.end()) break;
    if (std::make_pair(evaluation->step, evaluation->final) == key)
      evaluation->metrics.push_back({BlobOf(row[2]), RealOf(row[3])});
  }
  return evaluations;
}

absl::StatusOr<std::vector<EvaluationRecord>> MetaStore::ListPoolEvaluations(
    const std::string& job_id) {
  absl::MutexLock lock(&mutex_);
  LH_ASSIGN_OR_RETURN(
      const std::vector<SqlRow> rows,
      database_->Query("SELECT pool, step, final, name, value, version, tokens FROM measurement"
                       " WHERE job = ? AND pool <> ? ORDER BY pool, step, final, name",
                       {job_id, std::string()}));
  std::vector<EvaluationRecord> evaluations;
  for (const SqlRow& row : rows) {
    const std::string pool = BlobOf(row[0]);
    const int64_t step = IntegerOf(row[1]);
    if (evaluations.empty() || evaluations.back().pool != pool || evaluations.back().step != step) {
      evaluations.push_back({.job_id = job_id,
                             .step = step,
                             .version = IntegerOf(row[5]),
                             .tokens = IntegerOf(row[6]),
                             .final = IntegerOf(row[2]) != 0,
                             .pool = pool});
    }
    const NamedValue metric{BlobOf(row[3]), RealOf(row[4])};
    if (metric.name == "loss") evaluations.back().loss = metric.value;
    evaluations.back().metrics.push_back(metric);
  }
  return evaluations;
}

absl::StatusOr<std::string> MetaStore::GetCounters(const std::string& job_id) {
  absl::MutexLock lock(&mutex_);
  LH_ASSIGN_OR_RETURN(
      const std::vector<SqlRow> rows,
      database_->Query("SELECT counters FROM job LEFT JOIN counters ON job = id WHERE id = ?",
                       {job_id}));
  if (rows.empty()) return NoJob(job_id);
  return BlobOf(rows[0][0]);
}

absl::StatusOr<std::vector<std::string>> MetaStore::ListEvents(const std::string& job_id) {
  absl::MutexLock lock(&mutex_);
  LH_ASSIGN_OR_RETURN(
      const std::vector<SqlRow> rows,
      database_->Query("SELECT event FROM event WHERE job = ? ORDER BY sequence", {job_id}));
  std::vector<std::string> events;
  for (const SqlRow& row : rows) events.push_back(BlobOf(row[0]));
  return events;
}

absl::StatusOr<int64_t> MetaStore::GetCheckpointRequest(const std::string& job_id) {
  absl::MutexLock lock(&mutex_);
  LH_ASSIGN_OR_RETURN(
      const std::vector<SqlRow> rows,
      database_->Query("SELECT cycle FROM checkpoint_request WHERE job = ?", {job_id}));
  return rows.empty() ? 0 : IntegerOf(rows[0][0]);
}

absl::StatusOr<std::string> MetaStore::FindDeleted(const std::string& name_or_id) {
  absl::MutexLock lock(&mutex_);
  LH_ASSIGN_OR_RETURN(const std::vector<SqlRow> rows,
                      database_->Query("SELECT id FROM deleted WHERE id = ?1 OR name = ?1"
                                       " ORDER BY id <> ?1, position DESC LIMIT 1",
                                       {name_or_id}));
  if (rows.empty()) return NoJob(name_or_id);
  return BlobOf(rows[0][0]);
}

absl::StatusOr<std::vector<std::string>> MetaStore::ListUnremoved() {
  absl::MutexLock lock(&mutex_);
  std::vector<std::string> ids;
  // An earlier version of the program did not write this table.
  LH_ASSIGN_OR_RETURN(const std::vector<SqlRow> known,
                      database_->Query("SELECT 1 FROM sqlite_master WHERE name = 'deleted'", {}));
  if (known.empty()) return ids;
  LH_ASSIGN_OR_RETURN(const std::vector<SqlRow> rows,
                      database_->Query("SELECT id FROM deleted WHERE removed = 0", {}));
  for (const SqlRow& row : rows) ids.push_back(BlobOf(row[0]));
  return ids;
}

}  // namespace longhaul

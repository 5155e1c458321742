#include "coordinator/store/meta_store.h"

#include <cmath>
#include <cstdint>
#include <optional>
#include <utility>
#include <variant>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "coordinator/store/meta_tables.h"
#include "coordinator/store/sqlite_database.h"

namespace longhaul {
namespace {

// How many deleted jobs are remembered.
constexpr int64_t kDeletedMax = 10000;

template <typename Enum>
SqlValue NumberOf(Enum value) {
  return static_cast<int64_t>(value);
}
SqlValue StepValue(const std::optional<int64_t>& step) {
  if (!step.has_value()) return std::monostate();
  return *step;
}
SqlValue DepartedValue(const ParticipantRecord& participant) {
  if (!participant.left) return int64_t{0};
  return participant.missed ? kDepartedMissed : kDepartedGaveUp;
}
SqlValue TimeValue(absl::Time time) {
  if (time == absl::InfinitePast()) return std::monostate();
  return absl::ToUnixMicros(time);
}

absl::Status Run(SqliteDatabase& database, absl::string_view sql,
                 const std::vector<SqlValue>& parameters) {
  return database.Query(sql, parameters).status();
}

absl::Status Write(SqliteDatabase& database, const NewJob& record) {
  const JobRecord& job = record.job;
  const SqlValue token =
      job.idempotency_token.empty() ? SqlValue() : SqlValue(job.idempotency_token);
  const SqlValue order = job.order == 0 ? SqlValue() : SqlValue(job.order);
  LH_RETURN_IF_ERROR(
      Run(database,
          "INSERT INTO job (position, id, name, token, state, created, started, ended,"
          " status, spec) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
          {order, job.id, job.name, token, NumberOf(job.state), TimeValue(job.created),
           TimeValue(job.started), TimeValue(job.ended), job.status, job.spec}));
  if (job.owner.empty()) return absl::OkStatus();
  return Run(database, "INSERT INTO owner (job, owner) VALUES (?, ?)", {job.id, job.owner});
}

absl::Status Write(SqliteDatabase& database, const RunTime& time) {
  return Run(database,
             "INSERT INTO run_time (id, total) VALUES (0, ?)"
             " ON CONFLICT (id) DO UPDATE SET total = MAX(total, excluded.total)",
             {absl::ToInt64Microseconds(time.total)});
}

absl::Status Write(SqliteDatabase& database, const EndedRunTime& ended) {
  return Run(database,
             "INSERT INTO ended_run_time (job, run_time) SELECT id, ? FROM job WHERE ended IS NOT"
             " NULL AND id NOT IN (SELECT job FROM ended_run_time)",
             {absl::ToInt64Microseconds(ended.run_time)});
}

absl::Status Write(SqliteDatabase& database, const JobUpdate& update) {
  LH_RETURN_IF_ERROR(
      Run(database, "UPDATE job SET state = ?, status = ?, started = ?, ended = ? WHERE id = ?",
          {NumberOf(update.state), update.status, TimeValue(update.started),
           TimeValue(update.ended), update.job_id}));
  if (database.Changes() != 1) return NoJob(update.job_id);
  if (update.ended == absl::InfinitePast()) return absl::OkStatus();
  // After a crash no job has ended later than the newest RunTime.
  LH_RETURN_IF_ERROR(Write(database, RunTime{update.run_time}));
  return Run(database, "INSERT OR REPLACE INTO ended_run_time (job, run_time) VALUES (?, ?)",
             {update.job_id, absl::ToInt64Microseconds(update.run_time)});
}

absl::Status Write(SqliteDatabase& database, const ParticipantRecord& participant) {
  return Run(database,
             "INSERT INTO participant (job, ordinal, pool, incarnation, start_step, departed,"
             " return_until) VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (job, ordinal) DO UPDATE SET"
             " pool = excluded.pool, incarnation = excluded.incarnation,"
             " start_step = excluded.start_step, departed = excluded.departed,"
             " return_until = excluded.return_until",
             {participant.job_id, int64_t{participant.ordinal}, participant.pool,
              participant.incarnation, StepValue(participant.start_step),
              DepartedValue(participant), TimeValue(participant.return_until)});
}

absl::Status WriteMetric(SqliteDatabase& database, const EvaluationRecord& evaluation,
                         const NamedValue& metric) {
  if (!evaluation.site.empty()) {
    return Run(database,
               "INSERT INTO site_measurement (job, site, step, final, name, value, version, tokens)"
               " VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (job, site, step, final, name)"
               " DO NOTHING",
               {evaluation.job_id, evaluation.site, evaluation.step, int64_t{evaluation.final},
                metric.name, metric.value, evaluation.version, evaluation.tokens});
  }
  return Run(database,
             "INSERT INTO measurement (job, pool, step, final, name, value, version, tokens)"
             " VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (job, pool, step, final, name)"
             " DO NOTHING",
             {evaluation.job_id, evaluation.pool, evaluation.step, int64_t{evaluation.final},
              metric.name, metric.value, evaluation.version, evaluation.tokens});
}

absl::Status Write(SqliteDatabase& database, const EvaluationRecord& evaluation) {
  const bool outer = evaluation.pool.empty() && evaluation.site.empty();
  if (outer) {
    LH_RETURN_IF_ERROR(Run(database,
                           "INSERT INTO evaluation (job, step, final, version, loss, tokens)"
                           " VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (job, step, final) DO NOTHING",
                           {evaluation.job_id, evaluation.step, int64_t{evaluation.final},
                            evaluation.version, evaluation.loss, evaluation.tokens}));
  } else {
    LH_RETURN_IF_ERROR(WriteMetric(database, evaluation, {"loss", evaluation.loss}));
  }
  // The first report stays, with its metrics.
  if (database.Changes() == 0) return absl::OkStatus();
  for (const NamedValue& metric : evaluation.metrics) {
    const bool written = !outer && metric.name == "loss";
    if (!written && std::isfinite(metric.value))
      LH_RETURN_IF_ERROR(WriteMetric(database, evaluation, metric));
  }
  return absl::OkStatus();
}

absl::Status Write(SqliteDatabase& database, const JobCounters& counters) {
  return Run(database,
             "INSERT INTO counters (job, counters) VALUES (?, ?)"
             " ON CONFLICT (job) DO UPDATE SET counters = excluded.counters",
             {counters.job_id, counters.counters});
}

absl::Status Write(SqliteDatabase& database, const EventRecord& event) {
  LH_RETURN_IF_ERROR(Run(database,
                         "INSERT OR REPLACE INTO event (job, sequence, event) VALUES (?, ?, ?)",
                         {event.job_id, event.sequence, event.event}));
  return Run(database, "DELETE FROM event WHERE job = ? AND sequence < ?",
             {event.job_id, event.oldest});
}

absl::Status Write(SqliteDatabase& database, const CheckpointRequestRecord& request) {
  if (request.cycle == 0) {
    return Run(database, "DELETE FROM checkpoint_request WHERE job = ?", {request.job_id});
  }
  return Run(database, "INSERT OR REPLACE INTO checkpoint_request (job, cycle) VALUES (?, ?)",
             {request.job_id, request.cycle});
}

absl::Status Write(SqliteDatabase& database, const PauseRecord& pause) {
  if (pause.stage == PauseStage::kNone)
    return Run(database, "DELETE FROM pause WHERE job = ?", {pause.job_id});
  return Run(database,
             "INSERT OR REPLACE INTO pause (job, stage, at, by, reason, report)"
             " VALUES (?, ?, ?, ?, ?, ?)",
             {pause.job_id, NumberOf(pause.stage), TimeValue(pause.at), pause.by, pause.reason,
              pause.report});
}

absl::Status Write(SqliteDatabase& database, const DeletedJob& job) {
  LH_RETURN_IF_ERROR(Run(database,
                         "INSERT INTO deleted (id, name, at, removed)"
                         " SELECT id, name, ?, 0 FROM job WHERE id = ?",
                         {TimeValue(job.at), job.job_id}));
  if (database.Changes() != 1) return NoJob(job.job_id);
  for (const char* const statement :
       {"DELETE FROM event WHERE job = ?", "DELETE FROM checkpoint_request WHERE job = ?",
        "DELETE FROM measurement WHERE job = ?", "DELETE FROM counters WHERE job = ?",
        "DELETE FROM evaluation WHERE job = ?", "DELETE FROM participant WHERE job = ?",
        "DELETE FROM job WHERE id = ?"}) {
    LH_RETURN_IF_ERROR(Run(database, statement, {job.job_id}));
  }
  // The oldest deleted jobs are forgotten.
  return Run(database,
             "DELETE FROM deleted WHERE removed = 1 AND"
             " position <= (SELECT MAX(position) FROM deleted) - ?",
             {kDeletedMax});
}

absl::Status Write(SqliteDatabase& database, const CleanedUpJob& job) {
  return Run(database, "INSERT OR REPLACE INTO cleaned_up (job) VALUES (?)", {job.job_id});
}

absl::Status Write(SqliteDatabase& database, const RemovedJob& job) {
  return Run(database, "UPDATE deleted SET removed = 1 WHERE id = ?", {job.job_id});
}

}  // namespace

MetaStore::MetaStore(std::unique_ptr<SqliteDatabase> database, std::string path)
    : path_(std::move(path)), database_(std::move(database)) {}

absl::Status MetaStore::TakeTurn(absl::Duration patience) {
  absl::MutexLock lock(&turn_mutex_);
  const auto free = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(turn_mutex_) { return !taken_; };
  if (!turn_mutex_.AwaitWithTimeout(absl::Condition(&free), patience)) {
    return absl::UnavailableError(
        absl::StrCat("query of ", path_, " has not returned for ", absl::FormatDuration(patience)));
  }
  taken_ = true;
  return absl::OkStatus();
}

void MetaStore::EndTurn() {
  absl::MutexLock lock(&turn_mutex_);
  taken_ = false;
}
MetaStore::~MetaStore() = default;

absl::StatusOr<std::unique_ptr<MetaStore>> MetaStore::Open(const std::string& path,
                                                           SlowOperations* operations) {
  LH_ASSIGN_OR_RETURN(std::unique_ptr<SqliteDatabase> database,
                      SqliteDatabase::Open(path, operations));
  LH_RETURN_IF_ERROR(PrepareTables(*database, path));
  return absl::WrapUnique(new MetaStore(std::move(database), path));
}

absl::StatusOr<std::unique_ptr<MetaStore>> MetaStore::OpenImage(absl::string_view image,
                                                                const std::string& path) {
  LH_ASSIGN_OR_RETURN(std::unique_ptr<SqliteDatabase> database,
                      SqliteDatabase::OpenImage(image, path));
  LH_RETURN_IF_ERROR(PrepareToRead(*database, path));
  return absl::WrapUnique(new MetaStore(std::move(database), path));
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
  LH_RETURN_IF_ERROR(TakeTurn(absl::InfiniteDuration()));
  const absl::Cleanup end = [this] { EndTurn(); };
  absl::MutexLock lock(&mutex_);
  LH_RETURN_IF_ERROR(database_->Query("BEGIN IMMEDIATE", {}).status());
  absl::Status written = WriteAll(records);
  if (written.ok()) written = database_->Query("COMMIT", {}).status();
  if (!written.ok()) database_->Rollback();
  return written;
}

}  // namespace longhaul

// The queries of MetaStore.
#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "coordinator/store/meta_store.h"
#include "coordinator/store/meta_tables.h"

namespace longhaul {
namespace {

#define LH_ENDED_RUN_TIME "(SELECT run_time FROM ended_run_time AS e WHERE e.job = job.id)"
// In the order of JobOf. `spec`: the column, or NULL.
#define LH_COLUMNS_OF_JOB(spec)                                              \
  "position, id, name, token, state, created, started, ended, status, " spec \
  ", "                                                                       \
  "(SELECT owner FROM owner WHERE owner.job = job.id), " LH_ENDED_RUN_TIME
#define LH_JOB_COLUMNS LH_COLUMNS_OF_JOB("spec")

// For how many ids one query asks.
constexpr size_t kEndedAtOnce = 256;

absl::Time TimeOf(const SqlValue& value) {
  const auto* micros = std::get_if<int64_t>(&value);
  return micros == nullptr ? absl::InfinitePast() : absl::FromUnixMicros(*micros);
}
std::optional<absl::Duration> DurationOf(const SqlValue& value) {
  const auto* micros = std::get_if<int64_t>(&value);
  if (micros == nullptr) return std::nullopt;
  return absl::Microseconds(*micros);
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

JobState StateOf(const SqlValue& value) { return static_cast<JobState>(IntegerOf(value)); }

JobRecord JobOf(const SqlRow& row) {
  JobRecord job;
  job.order = IntegerOf(row[0]);
  job.id = BlobOf(row[1]);
  job.name = BlobOf(row[2]);
  job.idempotency_token = BlobOf(row[3]);
  job.state = StateOf(row[4]);
  job.created = TimeOf(row[5]);
  job.started = TimeOf(row[6]);
  job.ended = TimeOf(row[7]);
  job.status = BlobOf(row[8]);
  job.spec = BlobOf(row[9]);
  job.owner = BlobOf(row[10]);
  job.ended_run_time = DurationOf(row[11]);
  return job;
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

}  // namespace

absl::StatusOr<std::vector<SqlRow>> MetaStore::Query(absl::string_view sql,
                                                     const std::vector<SqlValue>& parameters) {
  LH_RETURN_IF_ERROR(TakeTurn(kSlowOperation));
  const absl::Cleanup end = [this] { EndTurn(); };
  absl::MutexLock lock(&mutex_);
  return database_->Query(sql, parameters);
}

absl::StatusOr<JobRecord> MetaStore::GetJob(const std::string& name_or_id) {
  // An id has precedence over a name.
  return OneJob(Query("SELECT " LH_JOB_COLUMNS " FROM job WHERE id = ?1 OR name = ?1"
                      " ORDER BY id <> ?1 LIMIT 1",
                      {name_or_id}),
                name_or_id);
}

absl::StatusOr<JobRecord> MetaStore::FindJobByToken(const std::string& idempotency_token) {
  return OneJob(Query("SELECT " LH_JOB_COLUMNS " FROM job WHERE token = ?", {idempotency_token}),
                absl::StrCat("of token ", idempotency_token));
}

absl::StatusOr<std::vector<std::string>> MetaStore::EndedOf(absl::Span<const std::string> ids) {
  // One statement for any number, so that it is prepared once. Those that are too few are NULL.
  static const std::string* const statement = [] {
    std::string places = "?1";
    for (size_t i = 2; i <= kEndedAtOnce; ++i) absl::StrAppend(&places, ", ?", i);
    return new std::string(absl::StrCat("SELECT id FROM job WHERE ended IS NOT NULL AND id IN (",
                                        places, ") UNION ALL SELECT id FROM deleted WHERE id IN (",
                                        places, ")"));
  }();
  std::set<std::string> found;
  for (size_t begin = 0; begin < ids.size(); begin += kEndedAtOnce) {
    std::vector<SqlValue> asked(kEndedAtOnce);
    const auto some = ids.subspan(begin, kEndedAtOnce);
    std::copy(some.begin(), some.end(), asked.begin());
    LH_ASSIGN_OR_RETURN(const std::vector<SqlRow> rows, Query(*statement, asked));
    for (const SqlRow& row : rows) found.insert(BlobOf(row[0]));
  }
  std::vector<std::string> ended;
  for (const std::string& id : ids)
    if (found.contains(id)) ended.push_back(id);
  return ended;
}

absl::StatusOr<std::vector<JobRecord>> MetaStore::ListJobs(int64_t before, int limit) {
  LH_ASSIGN_OR_RETURN(const std::vector<SqlRow> rows,
                      Query("SELECT " LH_COLUMNS_OF_JOB("NULL") " FROM job WHERE position < ?"
                                                                " ORDER BY position DESC LIMIT ?",
                            {before, int64_t{limit}}));
  return JobsOf(rows);
}

absl::StatusOr<std::vector<JobRecord>> MetaStore::ListUnended() {
  LH_ASSIGN_OR_RETURN(
      const std::vector<SqlRow> rows,
      Query("SELECT " LH_JOB_COLUMNS " FROM job WHERE ended IS NULL ORDER BY position", {}));
  return JobsOf(rows);
}

absl::StatusOr<std::vector<JobKey>> MetaStore::ListKeys() {
  LH_ASSIGN_OR_RETURN(
      const std::vector<SqlRow> rows,
      Query("SELECT id, name, state, ended, " LH_ENDED_RUN_TIME " FROM job ORDER BY position", {}));
  std::vector<JobKey> keys;
  for (const SqlRow& row : rows) {
    keys.push_back(
        {BlobOf(row[0]), BlobOf(row[1]), StateOf(row[2]), TimeOf(row[3]), DurationOf(row[4])});
  }
  return keys;
}

absl::StatusOr<std::map<JobState, int64_t>> MetaStore::CountByState() {
  LH_ASSIGN_OR_RETURN(const std::vector<SqlRow> rows,
                      Query("SELECT state, COUNT(*) FROM job GROUP BY state", {}));
  std::map<JobState, int64_t> counts;
  for (const SqlRow& row : rows) counts[StateOf(row[0])] = IntegerOf(row[1]);
  return counts;
}

absl::StatusOr<std::vector<JobKey>> MetaStore::ListNotCleanedUp() {
  LH_ASSIGN_OR_RETURN(const std::vector<SqlRow> rows,
                      Query("SELECT id, name, state, ended FROM job WHERE ended IS NOT NULL AND id"
                            " NOT IN (SELECT job FROM cleaned_up) ORDER BY position",
                            {}));
  std::vector<JobKey> keys;
  for (const SqlRow& row : rows)
    keys.push_back({BlobOf(row[0]), BlobOf(row[1]), StateOf(row[2]), TimeOf(row[3])});
  return keys;
}

absl::StatusOr<std::vector<JobKey>> MetaStore::ListEndedBefore(absl::Duration run_time, int limit) {
  LH_ASSIGN_OR_RETURN(
      const std::vector<SqlRow> rows,
      Query("SELECT id, name, state, ended, run_time FROM ended_run_time JOIN job ON job = id"
            " WHERE run_time <= ? ORDER BY run_time, position LIMIT ?",
            {absl::ToInt64Microseconds(run_time), int64_t{limit}}));
  std::vector<JobKey> keys;
  for (const SqlRow& row : rows) {
    keys.push_back(
        {BlobOf(row[0]), BlobOf(row[1]), StateOf(row[2]), TimeOf(row[3]), DurationOf(row[4])});
  }
  return keys;
}

absl::StatusOr<absl::Duration> MetaStore::GetRunTime() {
  LH_ASSIGN_OR_RETURN(const std::vector<SqlRow> rows, Query("SELECT total FROM run_time", {}));
  return rows.empty() ? absl::ZeroDuration() : absl::Microseconds(IntegerOf(rows[0][0]));
}

absl::StatusOr<std::vector<ParticipantRecord>> MetaStore::ListParticipants(
    const std::string& job_id) {
  LH_ASSIGN_OR_RETURN(const std::vector<SqlRow> rows,
                      Query("SELECT ordinal, pool, incarnation, start_step, departed, return_until"
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
    const int64_t departed = IntegerOf(row[4]);
    participant.left = departed != 0;
    participant.missed = departed == kDepartedMissed;
    participant.return_until = TimeOf(row[5]);
  }
  return participants;
}

absl::StatusOr<std::vector<EvaluationRecord>> MetaStore::ListEvaluations(
    const std::string& job_id) {
  LH_ASSIGN_OR_RETURN(const std::vector<SqlRow> rows,
                      Query("SELECT step, final, version, loss, tokens FROM evaluation"
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
                      Query("SELECT step, final, name, value FROM measurement"
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

namespace {

// Rows of (who, step, final, name, value, version, tokens), the metrics of an evaluation one after
// another.
std::vector<EvaluationRecord> RecordsOf(const std::string& job_id, const std::vector<SqlRow>& rows,
                                        std::string EvaluationRecord::*who) {
  std::vector<EvaluationRecord> evaluations;
  for (const SqlRow& row : rows) {
    EvaluationRecord found{.job_id = job_id,
                           .step = IntegerOf(row[1]),
                           .version = IntegerOf(row[5]),
                           .tokens = IntegerOf(row[6]),
                           .final = IntegerOf(row[2]) != 0};
    found.*who = BlobOf(row[0]);
    const bool same = !evaluations.empty() && evaluations.back().*who == found.*who &&
                      evaluations.back().step == found.step &&
                      evaluations.back().final == found.final;
    if (!same) evaluations.push_back(std::move(found));
    const NamedValue metric{BlobOf(row[3]), RealOf(row[4])};
    if (metric.name == "loss") evaluations.back().loss = metric.value;
    evaluations.back().metrics.push_back(metric);
  }
  return evaluations;
}

}  // namespace

absl::StatusOr<std::vector<EvaluationRecord>> MetaStore::ListPoolEvaluations(
    const std::string& job_id) {
  LH_ASSIGN_OR_RETURN(
      const std::vector<SqlRow> rows,
      Query("SELECT pool, step, final, name, value, version, tokens FROM measurement"
            " WHERE job = ? AND pool <> ? ORDER BY pool, step, final, name",
            {job_id, std::string()}));
  return RecordsOf(job_id, rows, &EvaluationRecord::pool);
}

absl::StatusOr<std::vector<EvaluationRecord>> MetaStore::ListSiteEvaluations(
    const std::string& job_id) {
  LH_ASSIGN_OR_RETURN(
      const std::vector<SqlRow> rows,
      Query("SELECT site, step, final, name, value, version, tokens FROM site_measurement"
            " WHERE job = ? ORDER BY step, final, site, name",
            {job_id}));
  return RecordsOf(job_id, rows, &EvaluationRecord::site);
}

absl::StatusOr<std::string> MetaStore::GetCounters(const std::string& job_id) {
  LH_ASSIGN_OR_RETURN(
      const std::vector<SqlRow> rows,
      Query("SELECT counters FROM job LEFT JOIN counters ON job = id WHERE id = ?", {job_id}));
  if (rows.empty()) return NoJob(job_id);
  return BlobOf(rows[0][0]);
}

absl::StatusOr<std::vector<std::string>> MetaStore::ListEvents(const std::string& job_id) {
  LH_ASSIGN_OR_RETURN(const std::vector<SqlRow> rows,
                      Query("SELECT event FROM event WHERE job = ? ORDER BY sequence", {job_id}));
  std::vector<std::string> events;
  for (const SqlRow& row : rows) events.push_back(BlobOf(row[0]));
  return events;
}

absl::StatusOr<int64_t> MetaStore::GetCheckpointRequest(const std::string& job_id) {
  LH_ASSIGN_OR_RETURN(const std::vector<SqlRow> rows,
                      Query("SELECT cycle FROM checkpoint_request WHERE job = ?", {job_id}));
  return rows.empty() ? 0 : IntegerOf(rows[0][0]);
}

absl::StatusOr<PauseRecord> MetaStore::GetPause(const std::string& job_id) {
  LH_ASSIGN_OR_RETURN(
      const std::vector<SqlRow> rows,
      Query("SELECT stage, at, by, reason, report FROM pause WHERE job = ?", {job_id}));
  PauseRecord pause{.job_id = job_id};
  if (rows.empty()) return pause;
  const SqlRow& row = rows[0];
  pause.stage = static_cast<PauseStage>(IntegerOf(row[0]));
  pause.at = TimeOf(row[1]);
  pause.by = BlobOf(row[2]);
  pause.reason = BlobOf(row[3]);
  pause.report = BlobOf(row[4]);
  return pause;
}

absl::StatusOr<std::string> MetaStore::FindDeleted(const std::string& name_or_id) {
  LH_ASSIGN_OR_RETURN(const std::vector<SqlRow> rows,
                      Query("SELECT id FROM deleted WHERE id = ?1 OR name = ?1"
                            " ORDER BY id <> ?1, position DESC LIMIT 1",
                            {name_or_id}));
  if (rows.empty()) return NoJob(name_or_id);
  return BlobOf(rows[0][0]);
}

absl::StatusOr<std::vector<std::string>> MetaStore::ListUnremoved() {
  LH_ASSIGN_OR_RETURN(const std::vector<SqlRow> rows,
                      Query("SELECT id FROM deleted WHERE removed = 0", {}));
  std::vector<std::string> ids;
  for (const SqlRow& row : rows) ids.push_back(BlobOf(row[0]));
  return ids;
}

}  // namespace longhaul

#include "coordinator/store/meta_tables.h"

#include <cstdint>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"

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

// Tables that later versions of the program added.
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
CREATE TABLE IF NOT EXISTS site_measurement (
  job BLOB NOT NULL REFERENCES job (id) ON DELETE CASCADE, site BLOB NOT NULL,
  step INTEGER NOT NULL, final INTEGER NOT NULL, name BLOB NOT NULL, value REAL,
  version INTEGER NOT NULL, tokens INTEGER NOT NULL,
  PRIMARY KEY (job, site, step, final, name)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS owner (
  job BLOB NOT NULL PRIMARY KEY REFERENCES job (id) ON DELETE CASCADE, owner BLOB NOT NULL)
  WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS pause (
  job BLOB NOT NULL PRIMARY KEY REFERENCES job (id) ON DELETE CASCADE, stage INTEGER NOT NULL,
  at INTEGER, by BLOB NOT NULL, reason BLOB NOT NULL, report BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS run_time (
  id INTEGER PRIMARY KEY CHECK (id = 0), total INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS ended_run_time (
  job BLOB NOT NULL PRIMARY KEY REFERENCES job (id) ON DELETE CASCADE, run_time INTEGER NOT NULL)
  WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS ended_run_time_order ON ended_run_time (run_time);
CREATE TABLE IF NOT EXISTS cleaned_up (
  job BLOB NOT NULL PRIMARY KEY REFERENCES job (id) ON DELETE CASCADE) WITHOUT ROWID;
)sql";

absl::StatusOr<int64_t> SchemaOf(SqliteDatabase& database) {
  LH_ASSIGN_OR_RETURN(const std::vector<SqlRow> rows, database.Query("PRAGMA user_version", {}));
  const auto* version = rows.empty() ? nullptr : std::get_if<int64_t>(&rows[0][0]);
  return version == nullptr ? 0 : *version;
}

absl::Status OtherSchema(const std::string& path, int64_t version) {
  return absl::FailedPreconditionError(
      absl::StrCat(path, " has schema ", version, "; this program has schema ", kSchemaVersion,
                   ": it was made by ", version < kSchemaVersion ? "an older" : "a newer",
                   " version of the program, and only that version can use it"));
}

}  // namespace

absl::Status PrepareTables(SqliteDatabase& database, const std::string& path) {
  LH_ASSIGN_OR_RETURN(const int64_t version, SchemaOf(database));
  if (version != 0 && version != kSchemaVersion) return OtherSchema(path, version);
  if (version == 0) LH_RETURN_IF_ERROR(database.Execute(kSchema));
  return database.Execute(kAdditions);
}

absl::Status PrepareToRead(SqliteDatabase& database, const std::string& path) {
  LH_ASSIGN_OR_RETURN(const int64_t version, SchemaOf(database));
  if (version != kSchemaVersion) return OtherSchema(path, version);
  // An earlier version of the program did not write these tables.
  for (const auto& [name, columns] :
       {std::pair("owner", "(job, owner)"), std::pair("ended_run_time", "(job, run_time)"),
        std::pair("deleted", "(id, removed)")}) {
    LH_ASSIGN_OR_RETURN(
        const std::vector<SqlRow> found,
        database.Query("SELECT 1 FROM sqlite_master WHERE name = ?", {std::string(name)}));
    if (!found.empty()) continue;
    LH_RETURN_IF_ERROR(database.Execute(absl::StrCat("CREATE TEMP TABLE ", name, " ", columns)));
  }
  return absl::OkStatus();
}

absl::Status NoJob(absl::string_view which) {
  return absl::NotFoundError(absl::StrCat("no job ", which));
}

}  // namespace longhaul

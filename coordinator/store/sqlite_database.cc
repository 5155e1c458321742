#include "coordinator/store/sqlite_database.h"

#include <sqlite3.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status_macros.h"
#include "coordinator/store/fatal.h"

namespace longhaul {
namespace {

// EXCLUSIVE keeps the file locked between transactions; in WAL mode it must be set before the first
// access.
constexpr char kPragmas[] =
    "PRAGMA locking_mode = EXCLUSIVE;"
    "PRAGMA journal_mode = WAL;"
    "PRAGMA synchronous = FULL;"
    "PRAGMA foreign_keys = ON;"
    "BEGIN EXCLUSIVE; COMMIT;";  // takes the lock now

int Bind(sqlite3_stmt* statement, int index, const SqlValue& value) {
  if (const auto* integer = std::get_if<int64_t>(&value)) {
    return sqlite3_bind_int64(statement, index, *integer);
  }
  if (const auto* real = std::get_if<double>(&value)) {
    return sqlite3_bind_double(statement, index, *real);
  }
  if (const auto* bytes = std::get_if<std::string>(&value)) {
    return sqlite3_bind_blob64(statement, index, bytes->data(), bytes->size(), SQLITE_STATIC);
  }
  return sqlite3_bind_null(statement, index);
}

SqlValue Column(sqlite3_stmt* statement, int index) {
  switch (sqlite3_column_type(statement, index)) {
    case SQLITE_INTEGER:
      return int64_t{sqlite3_column_int64(statement, index)};
    case SQLITE_FLOAT:
      return sqlite3_column_double(statement, index);
    case SQLITE_NULL:
      return std::monostate();
  }
  const char* bytes = static_cast<const char*>(sqlite3_column_blob(statement, index));
  return std::string(bytes == nullptr ? "" : bytes, sqlite3_column_bytes(statement, index));
}

}  // namespace

SqliteDatabase::SqliteDatabase(sqlite3* connection, std::string path)
    : connection_(connection), path_(std::move(path)) {}

SqliteDatabase::~SqliteDatabase() {
  for (const auto& [sql, statement] : statements_) sqlite3_finalize(statement);
  sqlite3_close(connection_);
}

absl::StatusOr<std::unique_ptr<SqliteDatabase>> SqliteDatabase::Open(const std::string& path) {
  sqlite3* connection = nullptr;
  const int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX;
  const int code = sqlite3_open_v2(path.c_str(), &connection, flags, nullptr);
  LH_CHECK(connection != nullptr, "out of memory");
  auto database = absl::WrapUnique(new SqliteDatabase(connection, path));
  if (code != SQLITE_OK) return database->Error();
  sqlite3_extended_result_codes(connection, 1);
  LH_RETURN_IF_ERROR(database->Execute(kPragmas));
  return database;
}

absl::Status SqliteDatabase::Error() {
  const int code = sqlite3_extended_errcode(connection_);
  const std::string message = absl::StrCat(path_, ": ", sqlite3_errmsg(connection_));
  if (code == SQLITE_CONSTRAINT_FOREIGNKEY) return absl::NotFoundError(message);
  switch (code & 0xff) {
    case SQLITE_CONSTRAINT:
      return absl::AlreadyExistsError(message);
    case SQLITE_FULL:
      return absl::ResourceExhaustedError(message);
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return absl::UnavailableError(message);
    case SQLITE_CANTOPEN:
    case SQLITE_PERM:
    case SQLITE_READONLY:
      return absl::PermissionDeniedError(message);
    case SQLITE_ERROR:
      return absl::InternalError(message);
  }
  // Input and output errors, a damaged file, and whatever else leaves the file's state unknown.
  failed_ = MarkFatal(absl::DataLossError(message));
  return failed_;
}

absl::Status SqliteDatabase::Execute(const std::string& script) {
  LH_RETURN_IF_ERROR(failed_);
  if (sqlite3_exec(connection_, script.c_str(), nullptr, nullptr, nullptr) == SQLITE_OK) {
    return absl::OkStatus();
  }
  const absl::Status error = Error();
  Rollback();  // A statement inside a transaction may have failed: nothing of the script remains.
  return error;
}

void SqliteDatabase::Rollback() {
  if (sqlite3_get_autocommit(connection_)) return;
  sqlite3_exec(connection_, "ROLLBACK", nullptr, nullptr, nullptr);
}

absl::StatusOr<std::vector<SqlRow>> SqliteDatabase::Query(absl::string_view sql,
                                                          const std::vector<SqlValue>& parameters) {
  LH_RETURN_IF_ERROR(failed_);
  LH_ASSIGN_OR_RETURN(sqlite3_stmt * statement, Prepare(sql));
  int index = 0;
  for (const SqlValue& value : parameters) {
    LH_CHECK(Bind(statement, ++index, value) == SQLITE_OK, "a parameter does not bind");
  }
  absl::StatusOr<std::vector<SqlRow>> rows = Step(statement);
  sqlite3_reset(statement);
  sqlite3_clear_bindings(statement);
  return rows;
}

absl::StatusOr<sqlite3_stmt*> SqliteDatabase::Prepare(absl::string_view sql) {
  const auto found = statements_.find(sql);
  if (found != statements_.end()) return found->second;
  sqlite3_stmt* statement = nullptr;
  if (sqlite3_prepare_v2(connection_, sql.data(), sql.size(), &statement, nullptr) != SQLITE_OK) {
    return Error();
  }
  statements_.emplace(std::string(sql), statement);
  return statement;
}

absl::StatusOr<std::vector<SqlRow>> SqliteDatabase::Step(sqlite3_stmt* statement) {
  std::vector<SqlRow> rows;
  while (true) {
    const int code = sqlite3_step(statement);
    if (code == SQLITE_DONE) return rows;
    if (code != SQLITE_ROW) return Error();
    SqlRow& row = rows.emplace_back();
    for (int i = 0; i < sqlite3_column_count(statement); ++i) row.push_back(Column(statement, i));
  }
}

int64_t SqliteDatabase::Changes() const { return sqlite3_changes64(connection_); }

}  // namespace longhaul

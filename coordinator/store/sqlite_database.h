// The little of SQLite that MetaStore needs: one connection, prepared statements, errors as
// absl::Status.
//
// Externally synchronised. Error codes: those of meta_store.h, and ALREADY_EXISTS (a UNIQUE
// constraint), NOT_FOUND (a FOREIGN KEY constraint). After a fatal error every call fails alike.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

struct sqlite3;
struct sqlite3_stmt;

namespace longhaul {

// A value to bind or a column that was read. monostate: NULL. Text is read and bound as bytes.
using SqlValue = std::variant<std::monostate, int64_t, double, std::string>;
using SqlRow = std::vector<SqlValue>;

class SqliteDatabase {
 public:
  // Opens or makes the file: locked while open, write-ahead log, every commit durable, foreign keys
  // checked. What is there is verified (wal_check.h, PRAGMA quick_check); DATA_LOSS names the file,
  // and what its write-ahead log held is in the file itself afterwards. ":memory:": no file.
  static absl::StatusOr<std::unique_ptr<SqliteDatabase>> Open(const std::string& path);
  // The bytes of a file, to read only. `path` is for messages.
  static absl::StatusOr<std::unique_ptr<SqliteDatabase>> OpenImage(absl::string_view image,
                                                                   const std::string& path);
  ~SqliteDatabase();
  SqliteDatabase(const SqliteDatabase&) = delete;
  SqliteDatabase& operator=(const SqliteDatabase&) = delete;

  // Runs statements that return nothing and have no parameters.
  absl::Status Execute(const std::string& script);
  // Runs one statement with its parameters; returns its rows. Statements are prepared once for each
  // text.
  absl::StatusOr<std::vector<SqlRow>> Query(absl::string_view sql,
                                            const std::vector<SqlValue>& parameters);
  // Ends a transaction that is open, if any, without its changes.
  void Rollback();
  // Rows that the last statement changed.
  int64_t Changes() const;

 private:
  SqliteDatabase(sqlite3* connection, std::string path);
  static std::unique_ptr<SqliteDatabase> Connect(const std::string& name, const std::string& path,
                                                 int* code);
  absl::Status CheckIntegrity();
  absl::StatusOr<sqlite3_stmt*> Prepare(absl::string_view sql);
  absl::StatusOr<std::vector<SqlRow>> Step(sqlite3_stmt* statement);
  // The status of the connection's last error.
  absl::Status Error();

  sqlite3* const connection_;
  const std::string path_;
  absl::Status failed_;  // The fatal error, if any.
  std::map<std::string, sqlite3_stmt*, std::less<>> statements_;
};

// UNAVAILABLE: another process has the database open. For a database that this process has not open.
absl::Status CheckNotOpen(const std::string& path);

}  // namespace longhaul

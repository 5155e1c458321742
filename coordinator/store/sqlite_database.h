// The small part of SQLite that MetaStore needs: one connection, prepared statements, errors as
// absl::Status.
//
// Externally synchronised. Error codes: those of meta_store.h, and ALREADY_EXISTS (a UNIQUE
// constraint), NOT_FOUND (a FOREIGN KEY constraint). After a fatal error every call fails with it.
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
#include "common/io/slow_operations.h"

struct sqlite3;
struct sqlite3_stmt;

namespace longhaul {

// A value to bind, or a column that was read. monostate is NULL. Text is read and bound as bytes.
using SqlValue = std::variant<std::monostate, int64_t, double, std::string>;
using SqlRow = std::vector<SqlValue>;

class SqliteDatabase {
 public:
  // Opens or makes the file. It is locked while it is open, has a write-ahead log, makes every
  // commit durable, and checks foreign keys. An existing file is verified (wal_check.h, PRAGMA
  // quick_check); DATA_LOSS names the file. Afterwards the file itself contains what its
  // write-ahead log held. ":memory:": no file. `operations`, which may be null, knows what the
  // database does on the disk, and outlives it.
  static absl::StatusOr<std::unique_ptr<SqliteDatabase>> Open(const std::string& path,
                                                              SlowOperations* operations = nullptr);
  // Opens the bytes of a file, to read only. `path` is for messages.
  static absl::StatusOr<std::unique_ptr<SqliteDatabase>> OpenImage(absl::string_view image,
                                                                   const std::string& path);
  ~SqliteDatabase();
  SqliteDatabase(const SqliteDatabase&) = delete;
  SqliteDatabase& operator=(const SqliteDatabase&) = delete;

  // Runs statements that return nothing and have no parameters.
  absl::Status Execute(const std::string& script);
  // Runs one statement with its parameters and returns its rows. Each text is prepared only once.
  absl::StatusOr<std::vector<SqlRow>> Query(absl::string_view sql,
                                            const std::vector<SqlValue>& parameters);
  // Ends an open transaction, if any, without its changes.
  void Rollback();
  // How many rows the last statement changed.
  int64_t Changes() const;

 private:
  SqliteDatabase(sqlite3* connection, std::string path, SlowOperations* operations);
  static std::unique_ptr<SqliteDatabase> Connect(const std::string& name, const std::string& path,
                                                 SlowOperations* operations, int* code);
  absl::Status CheckIntegrity();
  absl::StatusOr<sqlite3_stmt*> Prepare(absl::string_view sql);
  absl::StatusOr<std::vector<SqlRow>> Step(sqlite3_stmt* statement);
  // The status of the connection's last error.
  absl::Status Error();

  sqlite3* const connection_;
  const std::string path_;
  SlowOperations* const operations_;
  // The fatal error, if any.
  absl::Status failed_;
  std::map<std::string, sqlite3_stmt*, std::less<>> statements_;
};

// UNAVAILABLE: another process has the database open. This process must not have it open.
absl::Status CheckNotOpen(const std::string& path);

}  // namespace longhaul

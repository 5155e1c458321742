#include "coordinator/store/sqlite_database.h"

#include <fcntl.h>
#include <sqlite3.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status_macros.h"
#include "common/io/file_util.h"
#include "common/io/posix_filesystem.h"
#include "coordinator/store/fatal.h"
#include "coordinator/store/wal_check.h"

namespace longhaul {
namespace {

// EXCLUSIVE keeps the file locked between transactions. In WAL mode it must be set before the first
// access.
constexpr char kPragmas[] =
    "PRAGMA locking_mode = EXCLUSIVE;"
    "PRAGMA journal_mode = WAL;"
    "PRAGMA synchronous = FULL;"
    "PRAGMA wal_autocheckpoint = 64;"
    // Takes the lock now.
    "PRAGMA foreign_keys = ON;"
    "BEGIN EXCLUSIVE; COMMIT;";

constexpr absl::string_view kInMemory = ":memory:";
constexpr int64_t kWalBytesMax = int64_t{1} << 30;
// The bytes that SQLite locks in its files.
constexpr int64_t kPendingByte = 0x40000000, kLockBytes = 512;

// SQLite would take this for another process that has the database, or for a fault of the disk. The
// file is another one, since closing the database's would release its locks.
absl::Status CheckLocks(const std::string& path) {
  const std::string probe = absl::StrCat(path, "-locks");
  const int file = open(probe.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0664);
  // Why, SQLite will say.
  if (file < 0) return absl::OkStatus();
  struct flock lock = {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  const int error = fcntl(file, F_SETLK, &lock) == 0 ? 0 : errno;
  close(file);
  (void)unlink(probe.c_str());
  if (error != ENOLCK && error != EOPNOTSUPP && error != ENOSYS && error != EINVAL)
    return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat(path, ": its file system has no file locks: ", std::strerror(error),
                   " (NFS needs its lock service, Lustre the mount option flock): name a folder on "
                   "another one"));
}

// Checks a file before SQLite opens it, since SQLite repairs a file without telling.
absl::Status CheckFiles(const std::string& path) {
  const std::string wal_path = absl::StrCat(path, "-wal");
  // SQLite would open it read-only, and then speak of the disk.
  for (const std::string& file : {path, wal_path}) {
    if (faccessat(AT_FDCWD, file.c_str(), W_OK, AT_EACCESS) == 0 || errno == ENOENT) continue;
    if (errno == EACCES || errno == EROFS || errno == EPERM)
      return absl::PermissionDeniedError(absl::StrCat(file, ": ", std::strerror(errno)));
  }
  const std::unique_ptr<FileSystem> fs = MakePosixFileSystem();
  const absl::StatusOr<std::string> wal = ReadFile(*fs, wal_path, kWalBytesMax);
  if (absl::IsNotFound(wal.status())) return absl::OkStatus();
  // Of a database UNAVAILABLE says that another process has it. Here it is the lack of descriptors.
  if (absl::IsUnavailable(wal.status()))
    return absl::ResourceExhaustedError(wal.status().message());
  LH_RETURN_IF_ERROR(wal.status());
  absl::StatusOr<int64_t> frames = CheckWal(*wal, wal_path);
  std::error_code error;
  const auto size = std::filesystem::file_size(path, error);
  if (frames.ok() && *frames > 0 && (error || size == 0)) {
    frames =
        absl::DataLossError(absl::StrCat(path, error ? " is missing" : " is empty", ", though ",
                                         wal_path, " has ", *frames, " pages of it"));
  }
  if (frames.ok()) return absl::OkStatus();
  // Another process may be writing: then the file only looks damaged.
  if (!error) LH_RETURN_IF_ERROR(CheckNotOpen(path));
  return MarkFatal(frames.status());
}

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

// What the system said when an operation on the write-ahead log failed. (sqlite3_system_errno does
// not tell it of a commit.)
int LogErrno(sqlite3* connection) {
  sqlite3_file* log = nullptr;
  if (sqlite3_file_control(connection, "main", SQLITE_FCNTL_JOURNAL_POINTER, &log) != SQLITE_OK ||
      log == nullptr || log->pMethods == nullptr) {
    return 0;
  }
  int error = 0;
  return log->pMethods->xFileControl(log, SQLITE_FCNTL_LAST_ERRNO, &error) == SQLITE_OK ? error : 0;
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

SqliteDatabase::SqliteDatabase(sqlite3* connection, std::string path, SlowOperations* operations)
    : connection_(connection), path_(std::move(path)), operations_(operations) {}

SqliteDatabase::~SqliteDatabase() {
  const SlowOperations::Operation operation(operations_, "close", path_);
  for (const auto& [sql, statement] : statements_) sqlite3_finalize(statement);
  sqlite3_close(connection_);
}

std::unique_ptr<SqliteDatabase> SqliteDatabase::Connect(const std::string& name,
                                                        const std::string& path,
                                                        SlowOperations* operations, int* code) {
  sqlite3* connection = nullptr;
  const int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX;
  *code = sqlite3_open_v2(name.c_str(), &connection, flags, nullptr);
  LH_CHECK(connection != nullptr, "out of memory");
  sqlite3_extended_result_codes(connection, 1);
  return absl::WrapUnique(new SqliteDatabase(connection, path, operations));
}

absl::StatusOr<std::unique_ptr<SqliteDatabase>> SqliteDatabase::Open(const std::string& path,
                                                                     SlowOperations* operations) {
  std::unique_ptr<SqliteDatabase> database;
  int code = SQLITE_OK;
  {
    const SlowOperations::Operation operation(operations, "open", path);
    if (path != kInMemory) {
      LH_RETURN_IF_ERROR(CheckFiles(path));
      LH_RETURN_IF_ERROR(CheckLocks(path));
      // SQLite would never let the group write. Its other files get the mode of this one. (To close
      // a file that is there would release its locks.)
      const int made = open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0664);
      if (made >= 0) close(made);
    }
    database = Connect(path, path, operations, &code);
  }
  if (code != SQLITE_OK) return database->Error();
  LH_RETURN_IF_ERROR(database->Execute(kPragmas));
  LH_RETURN_IF_ERROR(database->CheckIntegrity());
  LH_RETURN_IF_ERROR(database->Query("PRAGMA wal_checkpoint(TRUNCATE)", {}).status());
  return database;
}

absl::StatusOr<std::unique_ptr<SqliteDatabase>> SqliteDatabase::OpenImage(absl::string_view image,
                                                                          const std::string& path) {
  int code = SQLITE_OK;
  std::unique_ptr<SqliteDatabase> database = Connect(std::string(kInMemory), path, nullptr, &code);
  if (code != SQLITE_OK) return database->Error();
  auto* const copy = static_cast<unsigned char*>(sqlite3_malloc64(image.size() + 1));
  LH_CHECK(copy != nullptr, "out of memory");
  std::copy(image.begin(), image.end(), copy);
  const unsigned flags = SQLITE_DESERIALIZE_FREEONCLOSE | SQLITE_DESERIALIZE_READONLY;
  const auto bytes = static_cast<sqlite3_int64>(image.size());
  if (sqlite3_deserialize(database->connection_, "main", copy, bytes, bytes, flags) != SQLITE_OK) {
    return database->Error();
  }
  LH_RETURN_IF_ERROR(database->CheckIntegrity());
  return database;
}

absl::Status SqliteDatabase::CheckIntegrity() {
  LH_ASSIGN_OR_RETURN(const std::vector<SqlRow> rows, Query("PRAGMA quick_check", {}));
  const auto* found = rows.empty() ? nullptr : std::get_if<std::string>(&rows[0][0]);
  if (found != nullptr && *found == "ok") return absl::OkStatus();
  failed_ = MarkFatal(absl::DataLossError(
      absl::StrCat(path_, " is damaged: ", found == nullptr ? "it cannot be checked" : *found)));
  return failed_;
}

absl::Status SqliteDatabase::Error() {
  const int code = sqlite3_extended_errcode(connection_);
  std::string message = absl::StrCat(path_, ": ", sqlite3_errmsg(connection_));
  if (code == SQLITE_CONSTRAINT_FOREIGNKEY) return absl::NotFoundError(message);
  // SQLite calls only ENOSPC full. After any of them it rolls the transaction back, and may go on.
  if (code == SQLITE_IOERR_WRITE) {
    const int error = LogErrno(connection_);
    if (error == EDQUOT || error == EFBIG) {
      absl::StrAppend(&message, error == EDQUOT ? ": the disk quota is exceeded"
                                                : ": the file would exceed the limit of this "
                                                  "process (ulimit -f) or file system");
      return absl::ResourceExhaustedError(message);
    }
  }
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
  // Input and output errors, a damaged file, and every other error after which the state of the
  // file is unknown.
  failed_ = MarkFatal(absl::DataLossError(message));
  return failed_;
}

absl::Status SqliteDatabase::Execute(const std::string& script) {
  LH_RETURN_IF_ERROR(failed_);
  const SlowOperations::Operation operation(operations_, "query", path_);
  if (sqlite3_exec(connection_, script.c_str(), nullptr, nullptr, nullptr) == SQLITE_OK) {
    return absl::OkStatus();
  }
  const absl::Status error = Error();
  // A statement inside a transaction may have failed. Then nothing of the script may remain.
  Rollback();
  return error;
}

void SqliteDatabase::Rollback() {
  if (sqlite3_get_autocommit(connection_)) return;
  const SlowOperations::Operation operation(operations_, "query", path_);
  sqlite3_exec(connection_, "ROLLBACK", nullptr, nullptr, nullptr);
}

absl::StatusOr<std::vector<SqlRow>> SqliteDatabase::Query(absl::string_view sql,
                                                          const std::vector<SqlValue>& parameters) {
  LH_RETURN_IF_ERROR(failed_);
  const SlowOperations::Operation operation(operations_, "query", path_);
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

absl::Status CheckNotOpen(const std::string& path) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return absl::ErrnoToStatus(errno, absl::StrCat("open ", path));
  struct flock lock = {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  lock.l_start = kPendingByte;
  lock.l_len = kLockBytes;
  const bool asked = fcntl(file, F_GETLK, &lock) == 0;
  close(file);
  if (!asked || lock.l_type == F_UNLCK) return absl::OkStatus();
  return absl::UnavailableError(
      absl::StrCat(path, ": database is locked by process ", lock.l_pid, ": a coordinator runs"));
}

int64_t SqliteDatabase::Changes() const { return sqlite3_changes64(connection_); }

}  // namespace longhaul

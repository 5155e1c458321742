#include "coordinator/store/sqlite_database.h"

#include <sqlite3.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <memory>
#include <vector>

#include "coordinator/store/fatal.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/temp_dir.h"

namespace longhaul {
namespace {

// Lets every write of SQLite fail while it lives.
class FailingWrites {
 public:
  explicit FailingWrites(int error) {
    error_ = error;
    for (const char* const call : kCalls) {
      const auto fail = reinterpret_cast<sqlite3_syscall_ptr>(&Fail);
      EXPECT_EQ(files_->xSetSystemCall(files_, call, fail), SQLITE_OK);
    }
  }
  ~FailingWrites() {
    for (const char* const call : kCalls) files_->xSetSystemCall(files_, call, nullptr);
  }

 private:
  static constexpr const char* kCalls[] = {"write", "pwrite", "pwrite64"};
  static ssize_t Fail(int, const void*, size_t, off_t) {
    errno = error_;
    return -1;
  }
  static inline int error_ = 0;
  sqlite3_vfs* const files_ = sqlite3_vfs_find(nullptr);
};

class SqliteDatabaseTest : public testing::Test {
 protected:
  SqliteDatabaseTest() : database_(*SqliteDatabase::Open(dir_.Join("a.db"))) {}
  TempDir dir_;
  std::unique_ptr<SqliteDatabase> database_;
};

TEST_F(SqliteDatabaseTest, BindsAndReadsEveryType) {
  const auto rows = database_->Query("SELECT ?, ?, ?, ?",
                                     {int64_t{-7}, 0.5, std::string("a\0b", 3), std::monostate()});
  ASSERT_TRUE(rows.ok());
  EXPECT_EQ((*rows)[0], (SqlRow{int64_t{-7}, 0.5, std::string("a\0b", 3), std::monostate()}));
}

TEST_F(SqliteDatabaseTest, AcknowledgesNothingThatIsNotDurable) {
  EXPECT_EQ((*database_->Query("PRAGMA journal_mode", {}))[0][0], SqlValue(std::string("wal")));
  EXPECT_EQ((*database_->Query("PRAGMA synchronous", {}))[0][0], SqlValue(int64_t{2}));
  EXPECT_EQ((*database_->Query("PRAGMA foreign_keys", {}))[0][0], SqlValue(int64_t{1}));
}

TEST_F(SqliteDatabaseTest, AFailedScriptLeavesNothing) {
  EXPECT_FALSE(database_->Execute("BEGIN; CREATE TABLE t (x); nonsense; COMMIT;").ok());
  EXPECT_FALSE(database_->Query("SELECT * FROM t", {}).ok());
  EXPECT_TRUE(database_->Execute("CREATE TABLE t (x UNIQUE);").ok());
}

TEST_F(SqliteDatabaseTest, ConstraintsAreNoFatalErrors) {
  ASSERT_TRUE(database_->Execute("CREATE TABLE t (x UNIQUE);").ok());
  ASSERT_TRUE(database_->Query("INSERT INTO t VALUES (?)", {int64_t{1}}).ok());
  EXPECT_EQ(database_->Changes(), 1);
  const auto again = database_->Query("INSERT INTO t VALUES (?)", {int64_t{1}});
  EXPECT_TRUE(absl::IsAlreadyExists(again.status()));
  EXPECT_FALSE(IsFatal(again.status()));
  EXPECT_TRUE(database_->Query("INSERT INTO t VALUES (?)", {int64_t{2}}).ok());
}

TEST_F(SqliteDatabaseTest, AFullFileIsNoFatalError) {
  ASSERT_TRUE(database_->Execute("CREATE TABLE t (x); PRAGMA max_page_count = 8;").ok());
  const auto full = database_->Query("INSERT INTO t VALUES (?)", {std::string(1 << 20, 'x')});
  EXPECT_TRUE(absl::IsResourceExhausted(full.status())) << full.status();
  EXPECT_FALSE(IsFatal(full.status()));
  EXPECT_TRUE(database_->Query("INSERT INTO t VALUES (?)", {int64_t{1}}).ok());
}

// SQLite itself calls only ENOSPC full.
TEST_F(SqliteDatabaseTest, AnExceededQuotaIsNoFatalError) {
  ASSERT_TRUE(database_->Execute("CREATE TABLE t (x);").ok());
  {
    const FailingWrites quota(EDQUOT);
    for (int i = 0; i < 2; ++i) {
      const auto full = database_->Query("INSERT INTO t VALUES (?)", {int64_t{1}});
      EXPECT_TRUE(absl::IsResourceExhausted(full.status())) << full.status();
      EXPECT_FALSE(IsFatal(full.status()));
      EXPECT_THAT(full.status().message(), testing::HasSubstr("quota"));
      EXPECT_FALSE(database_->Execute("BEGIN; INSERT INTO t VALUES (2); COMMIT;").ok());
    }
  }
  EXPECT_TRUE(database_->Query("INSERT INTO t VALUES (?)", {int64_t{3}}).ok());
  const auto rows = database_->Query("SELECT x FROM t", {});
  ASSERT_TRUE(rows.ok());
  EXPECT_EQ(*rows, std::vector<SqlRow>({{int64_t{3}}}));
  database_.reset();
  database_ = *SqliteDatabase::Open(dir_.Join("a.db"));
  EXPECT_EQ(*database_->Query("SELECT x FROM t", {}), *rows);
}

TEST_F(SqliteDatabaseTest, AnotherErrorOfAWriteIsFatal) {
  ASSERT_TRUE(database_->Execute("CREATE TABLE t (x);").ok());
  const FailingWrites broken(EIO);
  EXPECT_TRUE(IsFatal(database_->Query("INSERT INTO t VALUES (?)", {int64_t{1}}).status()));
}

TEST_F(SqliteDatabaseTest, ADamagedFileIsFatal) {
  database_.reset();
  std::ofstream(dir_.Join("a.db"), std::ios::trunc) << std::string(4096, 'x');
  const auto opened = SqliteDatabase::Open(dir_.Join("a.db"));
  EXPECT_TRUE(absl::IsDataLoss(opened.status())) << opened.status();
  EXPECT_TRUE(IsFatal(opened.status()));
}

// As after a backup was restored by another user. SQLite would call it a disk I/O error.
TEST_F(SqliteDatabaseTest, SaysWhichFileIsOfAnotherUser) {
  database_.reset();
  std::filesystem::permissions(dir_.path(), std::filesystem::perms::all);
  for (const char* name : {"a.db", "a.db-wal"}) {
    std::ofstream(dir_.Join(name), std::ios::app).close();
    std::filesystem::permissions(dir_.Join(name), std::filesystem::perms(0444));
    // Root may write to everything.
    const bool root = geteuid() == 0;
    ASSERT_TRUE(!root || seteuid(65534) == 0);
    const absl::Status opened = SqliteDatabase::Open(dir_.Join("a.db")).status();
    ASSERT_TRUE(!root || seteuid(0) == 0);
    EXPECT_TRUE(absl::IsPermissionDenied(opened)) << opened;
    EXPECT_THAT(opened.message(), testing::HasSubstr(dir_.Join(name) + ": Permission denied"));
    std::filesystem::permissions(dir_.Join(name), std::filesystem::perms(0666));
  }
}

TEST_F(SqliteDatabaseTest, SaysThatAFolderIsMissing) {
  EXPECT_TRUE(absl::IsPermissionDenied(SqliteDatabase::Open(dir_.Join("none/a.db")).status()));
}

}  // namespace
}  // namespace longhaul

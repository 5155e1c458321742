#include "coordinator/store/wal_check.h"

#include <sqlite3.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "coordinator/store/fatal.h"
#include "coordinator/store/sqlite_database.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/temp_dir.h"

namespace longhaul {
namespace {

std::string Read(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

void Write(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

// What a killed program leaves: a database, and a WAL with several transactions.
class WalCheckTest : public testing::Test {
 protected:
  WalCheckTest() {
    auto database = *SqliteDatabase::Open(dir_.Join("live.db"));
    EXPECT_TRUE(database->Execute("CREATE TABLE t (x); PRAGMA wal_autocheckpoint = 0;").ok());
    for (int64_t i = 0; i < 6; ++i) {
      EXPECT_TRUE(database->Query("INSERT INTO t VALUES (?)", {std::string(6000, 'a' + i)}).ok());
    }
    database_ = Read(dir_.Join("live.db"));
    wal_ = Read(dir_.Join("live.db-wal"));
  }
  size_t frames() const { return (wal_.size() - 32) / kFrame; }
  std::string Flipped(size_t at) const {
    std::string bytes = wal_;
    bytes[at] ^= 1;
    return bytes;
  }
  // Opens the files as a program does at its start.
  absl::StatusOr<int64_t> Rows(const std::string& database, const std::string& wal) {
    Write(dir_.Join("b.db"), database);
    Write(dir_.Join("b.db-wal"), wal);
    const auto opened = SqliteDatabase::Open(dir_.Join("b.db"));
    if (!opened.ok()) return opened.status();
    return std::get<int64_t>((*(*opened)->Query("SELECT COUNT(*) FROM t", {}))[0][0]);
  }

  static constexpr size_t kFrame = 24 + 4096;
  TempDir dir_;
  std::string database_, wal_;
};

TEST_F(WalCheckTest, CountsTheFramesOfWholeTransactions) {
  ASSERT_GT(frames(), 8u);
  EXPECT_EQ(*CheckWal(wal_, "w"), static_cast<int64_t>(frames()));
  EXPECT_EQ(*CheckWal("", "w"), 0);
  EXPECT_EQ(*Rows(database_, wal_), 6);
}

TEST_F(WalCheckTest, AChangedByteBeforeTheLastTransactionIsDamage) {
  int refused = 0;
  for (size_t at = 0; at < 32 + (frames() - 5) * kFrame; at += 97) {
    const absl::Status checked = CheckWal(Flipped(at), "x.db-wal").status();
    EXPECT_TRUE(absl::IsDataLoss(checked)) << at;
    EXPECT_THAT(std::string(checked.message()),
                testing::AllOf(testing::HasSubstr("x.db-wal"), testing::HasSubstr("at byte")));
    ++refused;
  }
  EXPECT_GT(refused, 50);
  const absl::Status opened = Rows(database_, Flipped(5000)).status();
  EXPECT_TRUE(absl::IsDataLoss(opened)) << opened;
  EXPECT_THAT(std::string(opened.message()), testing::HasSubstr("frame 2 is not valid"));
  // The check changed nothing.
  EXPECT_EQ(Read(dir_.Join("b.db-wal")), Flipped(5000));
}

TEST_F(WalCheckTest, ATornLastTransactionIsNotDamage) {
  const std::string cut = wal_.substr(0, wal_.size() - 100);
  EXPECT_TRUE(CheckWal(cut, "w").ok());
  EXPECT_EQ(*Rows(database_, cut), 5);
  EXPECT_EQ(*Rows(database_, Flipped(wal_.size() - 50)), 5);
}

TEST_F(WalCheckTest, FramesOfAnEarlierUseAreIgnored) {
  std::string longer = wal_ + wal_.substr(32, kFrame * 3);
  for (size_t frame = frames(); frame < frames() + 3; ++frame) longer[32 + frame * kFrame + 8] ^= 1;
  EXPECT_EQ(*CheckWal(longer, "w"), static_cast<int64_t>(frames()));
}

TEST_F(WalCheckTest, ReportsADatabaseThatIsGone) {
  EXPECT_TRUE(absl::IsDataLoss(Rows("", wal_).status()));
  std::filesystem::remove(dir_.Join("b.db"));
  const absl::Status opened = SqliteDatabase::Open(dir_.Join("b.db")).status();
  EXPECT_TRUE(absl::IsDataLoss(opened)) << opened;
  EXPECT_THAT(std::string(opened.message()), testing::HasSubstr("b.db is missing"));
}

TEST_F(WalCheckTest, MergesToAFileOfItsOwn) {
  const std::string merged = *MergeWal(database_, wal_, "w");
  const auto image = SqliteDatabase::OpenImage(merged, "x.db");
  ASSERT_TRUE(image.ok()) << image.status();
  EXPECT_EQ((*(*image)->Query("SELECT COUNT(*) FROM t", {}))[0][0], SqlValue(int64_t{6}));
  EXPECT_FALSE((*image)->Query("DELETE FROM t", {}).ok());
  EXPECT_TRUE(absl::IsDataLoss(MergeWal(database_, Flipped(5000), "w").status()));
}

TEST_F(WalCheckTest, ADamagedDatabaseIsRefused) {
  const std::string merged = *MergeWal(database_, wal_, "w");
  ASSERT_EQ(*Rows(merged, ""), 6);
  std::string cut = Read(dir_.Join("b.db"));
  cut.resize(cut.size() / 2 / 4096 * 4096);
  EXPECT_TRUE(absl::IsDataLoss(Rows(cut, "").status()));
  EXPECT_TRUE(
      absl::IsDataLoss(SqliteDatabase::OpenImage(*MergeWal(cut, "", "w"), "x.db").status()));
  std::string spoilt = Read(dir_.Join("b.db"));
  for (size_t at = 4096; at < spoilt.size(); at += 257) spoilt[at] ^= 0x55;
  EXPECT_TRUE(absl::IsDataLoss(Rows(spoilt, "").status()));
}

}  // namespace
}  // namespace longhaul

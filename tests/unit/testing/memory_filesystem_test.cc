#include "tests/testing/memory_filesystem.h"

#include <set>
#include <string>

#include "common/io/file_util.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace longhaul {
namespace {

std::string Content(FileSystem& fs, const std::string& path) {
  return ReadFile(fs, path, 1 << 20).value_or("(none)");
}

TEST(MemoryFileSystemTest, DropsBytesThatWereNotSynced) {
  MemoryFileSystem fs;
  auto file = *fs.Create("a");
  ASSERT_TRUE(file->WriteAt(0, "old").ok());
  ASSERT_TRUE(file->SyncData().ok());
  ASSERT_TRUE(fs.SyncDir("").ok());
  ASSERT_TRUE(file->WriteAt(0, "newer").ok());
  EXPECT_EQ(Content(*fs.CrashCopy(UnsyncedFate::kDropped), "a"), "old");
  EXPECT_EQ(Content(*fs.CrashCopy(UnsyncedFate::kKept), "a"), "newer");
  EXPECT_EQ(Content(fs, "a"), "newer");
}

TEST(MemoryFileSystemTest, DropsNamesThatWereNotSynced) {
  MemoryFileSystem fs;
  auto file = *fs.Create("a");
  ASSERT_TRUE(file->WriteAt(0, "x").ok());
  ASSERT_TRUE(file->SyncData().ok());
  EXPECT_EQ(Content(*fs.CrashCopy(UnsyncedFate::kDropped), "a"), "(none)");
  ASSERT_TRUE(fs.SyncDir("").ok());
  ASSERT_TRUE(fs.Rename("a", "b").ok());
  const auto crashed = fs.CrashCopy(UnsyncedFate::kDropped);
  EXPECT_EQ(Content(*crashed, "a"), "x");
  EXPECT_EQ(Content(*crashed, "b"), "(none)");
  ASSERT_TRUE(fs.Remove("b").ok());
  EXPECT_EQ(Content(*fs.CrashCopy(UnsyncedFate::kDropped), "a"), "x");
}

TEST(MemoryFileSystemTest, KeepsAnySubsetOfWritesInPart) {
  MemoryFileSystem fs;
  auto file = *fs.Create("a");
  ASSERT_TRUE(file->Preallocate(2048).ok());
  ASSERT_TRUE(file->SyncData().ok());
  ASSERT_TRUE(fs.SyncDir("").ok());
  ASSERT_TRUE(file->WriteAt(0, std::string(1024, '1')).ok());
  ASSERT_TRUE(file->WriteAt(1024, std::string(1024, '2')).ok());
  std::set<std::string> states;
  for (uint64_t seed = 0; seed < 3000; ++seed) {
    const std::string content = Content(*fs.CrashCopy(UnsyncedFate::kRandom, seed), "a");
    states.insert({content[0], content[512], content[1024], content[1536]});
  }
  // Each of the four sectors is there or not.
  EXPECT_EQ(states.size(), 16u);
}

TEST(MemoryFileSystemTest, ACopyIsIndependent) {
  MemoryFileSystem fs;
  ASSERT_TRUE(WriteFileAtomically(fs, "a", "one").ok());
  const auto copy = fs.CrashCopy(UnsyncedFate::kDropped);
  ASSERT_TRUE(WriteFileAtomically(fs, "a", "two").ok());
  EXPECT_EQ(Content(*copy, "a"), "one");
}

TEST(MemoryFileSystemTest, AtomicWritesLeaveTheOldOrTheNewWhole) {
  MemoryFileSystem fs;
  ASSERT_TRUE(WriteFileAtomically(fs, "a", "old").ok());
  auto file = *fs.Create("a.tmp");
  ASSERT_TRUE(file->WriteAt(0, "new").ok());
  ASSERT_TRUE(file->SyncData().ok());
  ASSERT_TRUE(fs.Rename("a.tmp", "a").ok());
  for (uint64_t seed = 0; seed < 20; ++seed) {
    EXPECT_THAT(Content(*fs.CrashCopy(UnsyncedFate::kRandom, seed), "a"),
                testing::AnyOf("old", "new"));
  }
}

}  // namespace
}  // namespace longhaul

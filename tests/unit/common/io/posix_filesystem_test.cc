#include "common/io/posix_filesystem.h"

#include <sys/resource.h>

#include <csignal>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/temp_dir.h"

namespace longhaul {
namespace {

// Linux's own file system of processes has no sync for folders, as SMB has none.
TEST(PosixFileSystemTest, AFolderThatCannotBeSyncedIsNoError) {
  EXPECT_FALSE(CanSyncFolders("/proc"));
  EXPECT_TRUE(MakePosixFileSystem()->SyncDir("/proc").ok());
  const TempDir folder;
  EXPECT_TRUE(CanSyncFolders(folder.path()));
  EXPECT_TRUE(MakePosixFileSystem()->SyncDir(folder.path()).ok());
  EXPECT_FALSE(MakePosixFileSystem()->SyncDir(folder.Join("none")).ok());
}

// It may pass, and nothing was damaged: as when the disk is full.
TEST(PosixFileSystemTest, AFileThatMayNotBecomeLargerIsNoRoom) {
  const TempDir folder;
  const std::unique_ptr<FileSystem> fs = MakePosixFileSystem();
  const auto file = fs->Create(folder.Join("file"));
  ASSERT_TRUE(file.ok()) << file.status();
  rlimit before;
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto ignored = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{.rlim_cur = 100, .rlim_max = before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  const absl::Status written = (*file)->WriteAt(100, "x");
  const absl::Status made = (*file)->Preallocate(200);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, ignored);
  for (const absl::Status& status : {written, made}) {
    EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
    EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr("ulimit -f"));
  }
  EXPECT_TRUE((*file)->WriteAt(100, "x").ok());
}

}  // namespace
}  // namespace longhaul

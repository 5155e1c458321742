#include "common/io/file_lock.h"

#include <sys/wait.h>
#include <unistd.h>

#include <utility>

#include "gtest/gtest.h"
#include "tests/testing/temp_dir.h"

namespace longhaul {
namespace {

TEST(FileLockTest, OneHasItUntilItEnds) {
  const TempDir folder;
  const std::string path = folder.path() + "/lock";
  FileLock second;
  ASSERT_TRUE(second.Open(path).ok());
  {
    FileLock first;
    ASSERT_TRUE(first.Open(path).ok());
    EXPECT_TRUE(first.Try().value());
    FileLock moved = std::move(first);
    EXPECT_FALSE(second.Try().value());
  }
  EXPECT_TRUE(second.Try().value());
}

TEST(FileLockTest, AProgramThatIsStartedDoesNotHoldIt) {
  const TempDir folder;
  const std::string path = folder.path() + "/lock";
  // The program says that it has begun, and ends when this test closes its input.
  int begun[2], input[2];
  ASSERT_EQ(pipe(begun), 0);
  ASSERT_EQ(pipe(input), 0);
  const pid_t child = fork();
  if (child == 0) {
    FileLock lock;
    if (!lock.Open(path).ok() || !lock.Try().value_or(false)) _exit(1);
    if (fork() == 0) {
      dup2(begun[1], STDOUT_FILENO);
      dup2(input[0], STDIN_FILENO);
      close(input[1]);
      execlp("sh", "sh", "-c", "echo; read line", nullptr);
      _exit(1);
    }
    _exit(0);
  }
  int code = 0;
  ASSERT_EQ(waitpid(child, &code, 0), child);
  EXPECT_EQ(code, 0);
  char byte;
  ASSERT_EQ(read(begun[0], &byte, 1), 1);
  FileLock lock;
  ASSERT_TRUE(lock.Open(path).ok());
  EXPECT_TRUE(lock.Try().value());
  for (const int end : {begun[0], begun[1], input[0], input[1]}) close(end);
}

TEST(FileLockTest, ItsFileHoldsBytes) {
  const TempDir folder;
  const std::string path = folder.path() + "/lock";
  {
    FileLock lock;
    ASSERT_TRUE(lock.Open(path).ok());
    ASSERT_TRUE(lock.Try().value());
    EXPECT_EQ(lock.Read(100).value(), "");
    ASSERT_TRUE(lock.Write("long text").ok());
    ASSERT_TRUE(lock.Write("text").ok());
  }
  FileLock lock;
  ASSERT_TRUE(lock.Open(path).ok());
  EXPECT_EQ(lock.Read(100).value(), "text");
  EXPECT_EQ(lock.Read(2).value(), "te");
}

TEST(FileLockTest, AFolderThatIsNotThere) {
  const TempDir folder;
  FileLock lock;
  const absl::Status status = lock.Open(folder.path() + "/none/lock");
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_NE(status.message().find("/none/lock"), std::string::npos);
}

}  // namespace
}  // namespace longhaul

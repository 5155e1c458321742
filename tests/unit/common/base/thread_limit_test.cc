#include "common/base/thread_limit.h"

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/temp_dir.h"

namespace longhaul {
namespace {

TEST(ThreadLimitTest, ThreadsThatMayBeStartedAreEnough) {
  EXPECT_TRUE(CheckThreads(20).ok());
  EXPECT_GT(AgentThreadsNeeded(2, 4), 2 * RankThreadsNeeded(4));
}

// What CheckThreads says in a process of a user with this limit. Root has none.
std::string WordsWithLimit(int limit, int needed, const std::string& root) {
  int ends[2];
  if (pipe(ends) != 0) return "";
  const pid_t child = fork();
  if (child == 0) {
    const rlimit most{static_cast<rlim_t>(limit), static_cast<rlim_t>(limit)};
    if (setrlimit(RLIMIT_NPROC, &most) != 0 || (geteuid() == 0 && setuid(47'123) != 0)) _exit(2);
    const absl::Status status = CheckThreads(needed, root);
    const std::string text(status.message());
    (void)!write(ends[1], text.data(), text.size());
    _exit(0);
  }
  close(ends[1]);
  std::string text(4096, '\0');
  const ssize_t bytes = read(ends[0], text.data(), text.size());
  close(ends[0]);
  waitpid(child, nullptr, 0);
  text.resize(bytes > 0 ? bytes : 0);
  return text;
}

TEST(ThreadLimitTest, ALimitIsNamedWithItsValueAndWhatIsNeeded) {
  const TempDir root;
  namespace fs = std::filesystem;
  fs::permissions(root.path(), fs::perms(0755));
  fs::create_directories(root.Join("proc/self"));
  fs::create_directories(root.Join("sys/fs/cgroup/pod/container"));
  std::ofstream(root.Join("proc/self/cgroup")) << "0::/pod/container\n";
  std::ofstream(root.Join("sys/fs/cgroup/pod/pids.max")) << "100\n";
  std::ofstream(root.Join("sys/fs/cgroup/pod/container/pids.max")) << "max\n";
  const std::string words = WordsWithLimit(5, 50, root.path());
#ifdef __SANITIZE_THREAD__  // It has a thread of its own.
  EXPECT_THAT(words, testing::HasSubstr("start 3 more threads, and about 50 are needed"));
#else
  EXPECT_THAT(words, testing::HasSubstr("start 4 more threads, and about 50 are needed"));
#endif
  EXPECT_THAT(words, testing::HasSubstr("ulimit -u is 5"));
  EXPECT_THAT(words, testing::HasSubstr("pids.max of the cgroup is 100"));
}

}  // namespace
}  // namespace longhaul

#include "worker/optim/thread_team.h"

#include <gtest/gtest.h>

#include <atomic>
#include <mutex>
#include <set>

namespace longhaul {
namespace {

TEST(ThreadTeamTest, PartsCoverEverythingOnceAtGrains) {
  for (const int threads : {1, 2, 3, 7}) {
    ThreadTeam team(threads);
    EXPECT_EQ(team.threads(), threads);
    for (const int64_t elements : {0, 1, 127, 128, 40000, 70000, 100001, 1 << 20}) {
      std::vector<std::atomic<int>> times(elements);
      team.ForParts(elements, 128, [&](int64_t first, int64_t end) {
        EXPECT_EQ(first % 128, 0);
        for (int64_t i = first; i < end; ++i) ++times[i];
      });
      for (const std::atomic<int>& time : times) ASSERT_EQ(time, 1) << elements;
    }
  }
}

TEST(ThreadTeamTest, SharesWhatIsLargeAmongItsThreads) {
  ThreadTeam team(3);
  std::mutex mutex;
  std::set<std::thread::id> threads;
  const auto body = [&](int64_t, int64_t) {
    const std::lock_guard lock(mutex);
    threads.insert(std::this_thread::get_id());
  };
  team.ForParts(1000, 128, body);
  EXPECT_EQ(threads, std::set{std::this_thread::get_id()});
  team.ForParts(1 << 20, 128, body);
  EXPECT_EQ(threads.size(), 3u);
}

}  // namespace
}  // namespace longhaul

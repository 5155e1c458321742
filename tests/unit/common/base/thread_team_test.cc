#include "common/base/thread_team.h"

#include <gtest/gtest.h>

#include <atomic>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "absl/synchronization/notification.h"
#include "absl/time/time.h"

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
  const std::thread::id self = std::this_thread::get_id();
  team.ForParts(1000, 128, [&](int64_t, int64_t) { EXPECT_EQ(std::this_thread::get_id(), self); });
  absl::Mutex mutex;
  std::set<std::thread::id> threads;
  // Each part waits for the others, so three threads must work at once.
  team.ForParts(1 << 20, 128, [&](int64_t, int64_t) {
    const absl::MutexLock lock(&mutex);
    threads.insert(std::this_thread::get_id());
    const auto all = [&] { return threads.size() == 3; };
    EXPECT_TRUE(mutex.AwaitWithTimeout(absl::Condition(&all), absl::Seconds(60)));
  });
  EXPECT_EQ(threads.size(), 3u);
}

TEST(ThreadTeamTest, DoesBothAtOnce) {
  ThreadTeam team(3);
  for (int round = 0; round < 100; ++round) {
    absl::Notification first, second;
    // Each waits for the other. What began late is not begun twice.
    team.Both(
        [&] {
          first.Notify();
          EXPECT_TRUE(second.WaitForNotificationWithTimeout(absl::Seconds(60)));
        },
        [&] {
          second.Notify();
          EXPECT_TRUE(first.WaitForNotificationWithTimeout(absl::Seconds(60)));
        });
  }
}

TEST(ThreadTeamTest, DoesBothInTurnWhereItIsAloneOrTaken) {
  std::vector<int> order;
  const auto first = [&] { order.push_back(1); };
  const auto second = [&] { order.push_back(2); };
  ThreadTeam alone(1), taken(2);
  alone.Both(first, second);
  taken.Both([&] { taken.Both(first, second); }, [] {});
  EXPECT_EQ(order, (std::vector<int>{1, 2, 1, 2}));
}

// One caller calls from inside a part, and another from another thread, while the team is taken.
TEST(ThreadTeamTest, ACallerThatFindsTheTeamTakenWorksAlone) {
  ThreadTeam team(2);
  std::atomic<int> inner = 0;
  const auto alone = [&] {
    const std::thread::id self = std::this_thread::get_id();
    team.ForParts(1 << 20, 128, [&](int64_t first, int64_t end) {
      EXPECT_EQ(std::this_thread::get_id(), self);
      EXPECT_EQ(end - first, 1 << 20);
      ++inner;
    });
  };
  absl::Notification taken, other_done;
  std::thread other([&] {
    EXPECT_TRUE(taken.WaitForNotificationWithTimeout(absl::Seconds(60)));
    alone();
    other_done.Notify();
  });
  std::atomic<int> parts = 0;
  team.ForParts(1 << 20, 128, [&](int64_t, int64_t) {
    if (++parts > 1) return;
    alone();
    taken.Notify();
    EXPECT_TRUE(other_done.WaitForNotificationWithTimeout(absl::Seconds(60)));
  });
  other.join();
  EXPECT_EQ(parts, 2);
  EXPECT_EQ(inner, 2);
}

// Some threads come late to a run: it is done, or the next one is.
TEST(ThreadTeamTest, ManyRunsInARow) {
  ThreadTeam team(2);
  for (int run = 0; run < 2000; ++run) {
    std::atomic<int64_t> elements = 0;
    team.ForParts(1 << 17, 128, [&](int64_t first, int64_t end) { elements += end - first; });
    ASSERT_EQ(elements, 1 << 17);
  }
}

}  // namespace
}  // namespace longhaul

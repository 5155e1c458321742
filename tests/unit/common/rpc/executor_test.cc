#include "common/rpc/executor.h"

#include <atomic>
#include <memory>
#include <vector>

#include "absl/synchronization/barrier.h"
#include "absl/synchronization/notification.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace longhaul {
namespace {

TEST(ExecutorTest, RunsTasksInTheirOrder) {
  std::vector<int> order;
  {
    Executor executor({.threads = 1, .queue_max = 100});
    for (int i = 0; i < 100; ++i) ASSERT_TRUE(executor.Submit([&order, i] { order.push_back(i); }));
  }
  ASSERT_EQ(order.size(), 100);
  EXPECT_TRUE(std::is_sorted(order.begin(), order.end()));
}

TEST(ExecutorTest, ItsThreadsRunAtOnce) {
  Executor executor({.threads = 3, .queue_max = 3});
  // Ends only if all three tasks are inside it at the same time.
  auto* meeting = new absl::Barrier(3);
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(executor.Submit([meeting] {
      if (meeting->Block()) delete meeting;
    }));
  }
}

TEST(ExecutorTest, ATaskThatWaitsForALaterOneDoesNotHoldItUp) {
  Executor executor({.threads = 2, .queue_max = 2});
  absl::Notification later, done;
  ASSERT_TRUE(executor.Submit([&] {
    later.WaitForNotification();
    done.Notify();
  }));
  ASSERT_TRUE(executor.Submit([&] { later.Notify(); }));
  done.WaitForNotification();
}

TEST(ExecutorTest, RefusesWhenTheQueueIsFull) {
  absl::Notification started, go;
  std::atomic<int> ran = 0;
  {
    Executor executor({.threads = 1, .queue_max = 2});
    ASSERT_TRUE(executor.Submit([&] {
      started.Notify();
      go.WaitForNotification();
    }));
    // It runs, so it does not count as waiting.
    started.WaitForNotification();
    EXPECT_TRUE(executor.Submit([&] { ++ran; }));
    EXPECT_TRUE(executor.Submit([&] { ++ran; }));
    EXPECT_FALSE(executor.Submit([&] { ++ran; }));
    go.Notify();
  }
  EXPECT_EQ(ran, 2);
}

TEST(ExecutorTest, OwnersTakeTurns) {
  absl::Notification started, go;
  std::vector<std::string> order;
  {
    Executor executor({.threads = 1, .queue_max = 100});
    ASSERT_TRUE(executor.Submit([&] {
      started.Notify();
      go.WaitForNotification();
    }));
    started.WaitForNotification();
    const auto submit = [&](const std::string& owner) {
      ASSERT_TRUE(executor.Submit(owner, [&order, owner] { order.push_back(owner); }));
    };
    for (int i = 0; i < 4; ++i) submit("a");
    for (int i = 0; i < 2; ++i) submit("b");
    submit("");
    go.Notify();
  }
  EXPECT_EQ(order, (std::vector<std::string>{"a", "b", "", "a", "b", "a", "a"}));
}

TEST(ExecutorTest, NoOwnerFillsTheQueue) {
  absl::Notification started, go;
  Executor executor({.threads = 1, .queue_max = 9});
  ASSERT_TRUE(executor.Submit([&] {
    started.Notify();
    go.WaitForNotification();
  }));
  started.WaitForNotification();
  const auto fill = [&](const std::string& owner) {
    int taken = 0;
    while (executor.Submit(owner, [] {})) ++taken;
    return taken;
  };
  EXPECT_EQ(fill("a"), 5);
  EXPECT_EQ(fill("b"), 2);
  EXPECT_EQ(fill("a"), 0);
  EXPECT_EQ(fill("c"), 1);
  EXPECT_EQ(fill(""), 1) << "what belongs to nobody may take the rest";
  go.Notify();
}

TEST(ExecutorTest, TakesTasksThatCannotBeCopied) {
  int seen = 0;
  {
    Executor executor({.threads = 1, .queue_max = 1});
    ASSERT_TRUE(executor.Submit([&seen, value = std::make_unique<int>(5)] { seen = *value; }));
  }
  EXPECT_EQ(seen, 5);
}

}  // namespace
}  // namespace longhaul

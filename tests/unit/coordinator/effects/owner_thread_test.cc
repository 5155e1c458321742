#include "coordinator/effects/owner_thread.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"

namespace longhaul::coordinator {
namespace {

constexpr absl::Duration kLong = absl::Hours(1);

TEST(OwnerThreadTest, RunsTasksInOrderAndFinishesThemWhenStopped) {
  ManualClock clock;
  std::vector<int> order;
  OwnerThread owner({.tick_period = kLong}, &clock, [] {});
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(owner.Post([&order, i] { order.push_back(i); }));
  owner.Stop();
  ASSERT_EQ(order.size(), 100u);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(order[i], i);
  EXPECT_FALSE(owner.Post([] {}));
  EXPECT_FALSE(owner.Submit([] {}));
}

TEST(OwnerThreadTest, ATasksTimeIsThatOfItsArrival) {
  ManualClock clock;
  const absl::Time start = clock.Now();
  OwnerThread owner({.tick_period = kLong}, &clock, [] {});
  absl::Notification go;
  absl::Time second;
  ASSERT_TRUE(owner.Post([&] { go.WaitForNotification(); }));
  ASSERT_TRUE(owner.Post([&] { second = owner.now(); }));
  // The disk was slow.
  clock.Advance(absl::Seconds(30));
  go.Notify();
  owner.Stop();
  EXPECT_EQ(second, start);
}

TEST(OwnerThreadTest, RefusesPostedTasksBeyondTheQueueButNeverSubmittedOnes) {
  ManualClock clock;
  OwnerThread owner({.queue_max = 2, .tick_period = kLong}, &clock, [] {});
  absl::Notification running, go;
  int ran = 0;
  ASSERT_TRUE(owner.Post([&] {
    running.Notify();
    go.WaitForNotification();
  }));
  running.WaitForNotification();
  EXPECT_TRUE(owner.Post([&] { ++ran; }));
  EXPECT_TRUE(owner.Post([&] { ++ran; }));
  EXPECT_FALSE(owner.Post([&] { ++ran; }));
  EXPECT_TRUE(owner.Submit([&] { ++ran; }));
  go.Notify();
  owner.Stop();
  EXPECT_EQ(ran, 3);
}

// A page of many jobs takes long. However many are wanted, a heartbeat waits for one.
TEST(OwnerThreadTest, WhatOnlyReadsWaitsForOtherTasks) {
  ManualClock clock;
  OwnerThread owner({.reads_max = 3, .tick_period = kLong}, &clock, [] {});
  absl::Notification running, go;
  std::string order;
  ASSERT_TRUE(owner.Post([&] {
    running.Notify();
    go.WaitForNotification();
  }));
  running.WaitForNotification();
  const absl::Time start = clock.Now();
  absl::Time last;
  for (int i = 0; i < OwnerThread::kBeforeRead + 1; ++i) {
    EXPECT_TRUE(owner.Post([&] {
      order += 't';
      last = owner.now();
    }));
  }
  clock.Advance(absl::Seconds(30));
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(owner.PostRead([&] { order += 'r'; }));
  EXPECT_FALSE(owner.PostRead([&] { order += 'r'; }));
  go.Notify();
  owner.Stop();
  EXPECT_EQ(last, start);
  // The first task counts, too.
  EXPECT_EQ(order, std::string(OwnerThread::kBeforeRead - 1, 't') + "rttrr");
}

// A task may wait for a disk that does not answer.
TEST(OwnerThreadTest, WhoWatchesItSeesThatATaskDoesNotReturnAndRefusesThoseThatWait) {
  ManualClock clock;
  OwnerThread owner({.tick_period = kLong}, &clock, [] {});
  EXPECT_EQ(owner.stalled_for(), absl::ZeroDuration());
  absl::Notification running, go;
  ASSERT_TRUE(owner.Post(
      [&] {
        running.Notify();
        go.WaitForNotification();
      },
      [](const absl::Status&) { ADD_FAILURE() << "it has begun"; }));
  running.WaitForNotification();
  while (owner.stalled_for() == absl::ZeroDuration()) absl::SleepFor(absl::Milliseconds(1));
  std::string order;
  const auto refused = [&](const char* who) {
    return [&order, who](const absl::Status& status) {
      EXPECT_EQ(status.message(), "the disk");
      order += who;
    };
  };
  const auto never = [] { ADD_FAILURE() << "it was refused"; };
  EXPECT_TRUE(owner.Post([&order] { order += "kept "; }));
  EXPECT_TRUE(owner.Post(never, refused("call ")));
  EXPECT_TRUE(owner.PostRead(never, refused("read ")));
  EXPECT_TRUE(owner.Submit([&order] { order += "fact "; }));
  owner.RefuseWaiting(absl::UnavailableError("the disk"));
  EXPECT_EQ(order, "call read ");
  go.Notify();
  owner.Stop();
  EXPECT_EQ(order, "call read kept fact ");
  EXPECT_EQ(owner.stalled_for(), absl::ZeroDuration());
}

TEST(OwnerThreadTest, TicksWhileNothingElseHappensAndTheClockStandsStill) {
  ManualClock clock;
  absl::Notification ticked;
  int ticks = 0;
  OwnerThread owner({.tick_period = absl::Milliseconds(1)}, &clock, [&] {
    if (++ticks == 3) ticked.Notify();
  });
  EXPECT_TRUE(ticked.WaitForNotificationWithTimeout(absl::Seconds(30)));
}

}  // namespace
}  // namespace longhaul::coordinator

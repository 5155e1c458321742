#include "worker/engine/reduce_queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "absl/synchronization/notification.h"

namespace longhaul {
namespace {

TEST(ReduceQueueTest, ReducesInOrder) {
  std::vector<int> reduced;
  ReduceQueue queue(
      [&](int unit) {
        reduced.push_back(unit);
        return absl::OkStatus();
      },
      8);
  EXPECT_TRUE(queue.Wait().ok());
  for (int unit : {3, 2, 1}) EXPECT_TRUE(queue.Submit(unit).ok());
  EXPECT_TRUE(queue.Wait().ok());
  EXPECT_TRUE(queue.Submit(0).ok());
  EXPECT_TRUE(queue.Wait().ok());
  EXPECT_THAT(reduced, testing::ElementsAre(3, 2, 1, 0));
}

TEST(ReduceQueueTest, SubmitDoesNotWaitForTheReduction) {
  absl::Notification submitted;
  ReduceQueue queue(
      [&](int) {
        submitted.WaitForNotification();
        return absl::OkStatus();
      },
      8);
  ASSERT_TRUE(queue.Submit(0).ok());
  ASSERT_TRUE(queue.Submit(1).ok());
  submitted.Notify();
  EXPECT_TRUE(queue.Wait().ok());
}

TEST(ReduceQueueTest, StopsAtTheFirstError) {
  std::vector<int> reduced;
  ReduceQueue queue(
      [&](int unit) {
        reduced.push_back(unit);
        return unit == 1 ? absl::UnavailableError("gone") : absl::OkStatus();
      },
      8);
  ASSERT_TRUE(queue.Submit(2).ok());
  queue.Submit(1).IgnoreError();
  queue.Submit(0).IgnoreError();
  EXPECT_EQ(queue.Wait(), absl::UnavailableError("gone"));
  EXPECT_EQ(queue.Submit(3), absl::UnavailableError("gone"));
  EXPECT_THAT(reduced, testing::ElementsAre(2, 1));
}

TEST(ReduceQueueTest, EndsWithWorkPending) {
  std::vector<int> reduced;
  absl::Notification started;
  {
    ReduceQueue queue(
        [&](int unit) {
          if (!started.HasBeenNotified()) started.Notify();
          reduced.push_back(unit);
          return absl::OkStatus();
        },
        8);
    ASSERT_TRUE(queue.Submit(1).ok());
    ASSERT_TRUE(queue.Submit(0).ok());
    started.WaitForNotification();
  }
  EXPECT_EQ(reduced.front(), 1);
}

TEST(ReduceQueueTest, SubmitWaitsWhileTooManyArePending) {
  absl::Notification second;
  std::vector<int> reduced;
  ReduceQueue queue(
      [&](int unit) {
        if (unit == 1) second.WaitForNotification();
        reduced.push_back(unit);
        return absl::OkStatus();
      },
      /*pending_max=*/1);
  ASSERT_TRUE(queue.Submit(2).ok());
  ASSERT_TRUE(queue.Submit(1).ok());
  EXPECT_THAT(reduced, testing::ElementsAre(2)) << "it had to be over";
  second.Notify();
  EXPECT_TRUE(queue.Wait().ok());
}

}  // namespace
}  // namespace longhaul

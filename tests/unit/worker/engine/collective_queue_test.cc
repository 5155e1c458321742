#include "worker/engine/collective_queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>
#include <vector>

#include "absl/synchronization/notification.h"

namespace longhaul {
namespace {

using testing::ElementsAre;

TEST(CollectiveQueueTest, RunsInOrder) {
  for (const bool threaded : {true, false}) {
    std::vector<int> done;
    const auto queue = threaded ? MakeCollectiveQueue(at::kCPU) : MakeImmediateQueue();
    EXPECT_TRUE(queue->Wait(0).ok());
    CollectiveQueue::Ticket last = 0;
    for (int i : {3, 2, 1}) {
      last = queue->Submit("work", [&done, i] {
        done.push_back(i);
        return absl::OkStatus();
      });
    }
    EXPECT_EQ(last, 3);
    EXPECT_TRUE(queue->Wait(last).ok());
    EXPECT_THAT(done, ElementsAre(3, 2, 1));
  }
}

TEST(CollectiveQueueTest, SubmitDoesNotWait) {
  absl::Notification submitted;
  const auto queue = MakeCollectiveQueue(at::kCPU);
  const auto wait = [&] {
    submitted.WaitForNotification();
    return absl::OkStatus();
  };
  queue->Submit("first", wait);
  const auto last = queue->Submit("second", wait);
  submitted.Notify();
  EXPECT_TRUE(queue->Wait(last).ok());
}

TEST(CollectiveQueueTest, WaitsForNoLaterWork) {
  absl::Notification may_go_on;
  const auto queue = MakeCollectiveQueue(at::kCPU);
  const auto first = queue->Submit("first", [] { return absl::OkStatus(); });
  const auto second = queue->Submit("second", [&] {
    may_go_on.WaitForNotification();
    return absl::OkStatus();
  });
  EXPECT_TRUE(queue->Wait(first).ok());
  may_go_on.Notify();
  EXPECT_TRUE(queue->Wait(second).ok());
}

TEST(CollectiveQueueTest, StopsAtTheFirstErrorAndNamesIt) {
  for (const bool threaded : {true, false}) {
    std::vector<int> done;
    const auto queue = threaded ? MakeCollectiveQueue(at::kCPU) : MakeImmediateQueue();
    const auto add = [&](int i) {
      done.push_back(i);
      return i == 1 ? absl::UnavailableError("rank 3 is gone") : absl::OkStatus();
    };
    queue->Submit("gathering layer 2", [&] { return add(2); });
    queue->Submit("gathering layer 1", [&] { return add(1); });
    const auto last = queue->Submit("gathering layer 0", [&] { return add(0); });
    const absl::Status expected = absl::UnavailableError("gathering layer 1: rank 3 is gone");
    EXPECT_EQ(queue->Wait(last), expected);
    EXPECT_EQ(queue->Wait(queue->Submit("more", [&] { return add(0); })), expected);
    EXPECT_THAT(done, ElementsAre(2, 1));
  }
}

TEST(CollectiveQueueTest, CatchesWhatWorkThrows) {
  const auto queue = MakeCollectiveQueue(at::kCPU);
  const auto ticket =
      queue->Submit("coding", []() -> absl::Status { throw std::runtime_error("no"); });
  EXPECT_EQ(queue->Wait(ticket), absl::InternalError("coding: no"));
}

TEST(CollectiveQueueTest, EndsWithWorkPending) {
  std::vector<int> done;
  absl::Notification started, may_end;
  {
    const auto queue = MakeCollectiveQueue(at::kCPU);
    queue->Submit("first", [&] {
      started.Notify();
      may_end.WaitForNotification();
      done.push_back(1);
      return absl::OkStatus();
    });
    queue->Submit("second", [&] {
      done.push_back(2);
      return absl::OkStatus();
    });
    started.WaitForNotification();
    may_end.Notify();
  }
  EXPECT_EQ(done.front(), 1);
}

}  // namespace
}  // namespace longhaul

#include "common/rpc/stall_watch.h"

#include <gtest/gtest.h>

#include <memory>

#include "absl/synchronization/notification.h"

namespace longhaul {
namespace {

TEST(StallWatchTest, EitherTheStallComesOrTheProgressCounts) {
  const auto watch = std::make_shared<StallWatch>(
      StallLimits{.pause_max = absl::Milliseconds(10), .pace_min = 1 << 20});
  absl::Notification stalled;
  watch->Start([&] { stalled.Notify(); });
  EXPECT_TRUE(watch->Pause());
  watch->Expect(1);
  stalled.WaitForNotification();
  EXPECT_FALSE(watch->Pause());
  watch->Stop();
}

}  // namespace
}  // namespace longhaul

#include "worker/movement/emulated_movement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "worker/movement/arena.h"

namespace longhaul {
namespace {

constexpr MoveQueue kUp{Direction::kUp, MoveClass::kState};
constexpr MoveQueue kDown{Direction::kDown, MoveClass::kState};

std::unique_ptr<VersionedBuffer> Make(Movement& movement, MemorySide side) {
  return Arena::Create(movement, side, 256, "a test")->Take("a buffer", 256);
}

// The slot is given to the second buffer before the first one has left it.
absl::Status ReuseWithoutAWait(uint64_t seed) {
  EmulatedMovement movement({.seed = seed});
  const auto first = Make(movement, MemorySide::kHost), second = Make(movement, MemorySide::kHost),
             back = Make(movement, MemorySide::kHost), slot = Make(movement, MemorySide::kDevice);
  first->SetVersion(1);
  second->SetVersion(2);
  const MoveToken up = movement.Copy(kUp, {first.get(), 1}, {slot.get(), 1}, 256);
  movement.Copy(kDown, {slot.get(), 1}, {back.get(), 1}, 256, {up});
  movement.Copy(kUp, {second.get(), 2}, {slot.get(), 2}, 256);
  return movement.WaitAll("the test");
}

TEST(EmulatedMovementTest, AMissingWaitIsFound) {
  int found = 0;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const absl::Status status = ReuseWithoutAWait(seed);
    if (status.ok()) continue;
    ++found;
    EXPECT_THAT(std::string(status.message()), testing::HasSubstr("a wait is missing"));
  }
  EXPECT_GT(found, 3);
}

TEST(EmulatedMovementTest, NothingRunsBeforeSomebodyWaits) {
  EmulatedMovement movement({});
  const auto host = Make(movement, MemorySide::kHost), device = Make(movement, MemorySide::kDevice);
  const MoveToken up = movement.Copy(kUp, {host.get(), 0}, {device.get(), 5}, 256);
  EXPECT_FALSE(movement.Done(up));
  EXPECT_EQ(device->version(), 0);
  EXPECT_EQ(device->promised(), 5);
  EXPECT_TRUE(movement.Join(up).ok());
  EXPECT_TRUE(movement.Done(up));
  EXPECT_EQ(device->version(), 5);
}

TEST(EmulatedMovementTest, PlacesHaveBounds) {
  EmulatedMovement movement({.host_bytes_max = 1000, .device_bytes_max = 2000});
  EXPECT_TRUE(movement.Allocate(MemorySide::kHost, 1000, "masters").ok());
  const absl::Status status = movement.Allocate(MemorySide::kHost, 1, "moments").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(status.message(), "moments: pinning host memory of 1 bytes, 1000 of 1000 are in use");
  EXPECT_TRUE(movement.Allocate(MemorySide::kDevice, 2000, "slots").ok());
}

// Also where the link was idle while the copy waited for something else.
TEST(EmulatedMovementTest, ACopyHasTheLinkFromWhenItCanBegin) {
  EmulatedMovement movement(
      {.mode = EmulatedMovement::Mode::kThreads, .down_bytes_per_second = 256 / 0.05});
  const auto device = Make(movement, MemorySide::kDevice),
             first = Make(movement, MemorySide::kHost), second = Make(movement, MemorySide::kHost);
  const MoveToken before = movement.Copy(kDown, {device.get(), 0}, {first.get(), 1}, 256);
  ASSERT_TRUE(movement.Wait(before, "the copy before").ok());
  absl::Time computed;
  const MoveToken work = movement.Compute(
      [&](void*) {
        absl::SleepFor(absl::Milliseconds(60));
        computed = absl::Now();
        return absl::OkStatus();
      },
      {}, {});
  const MoveToken copy = movement.Copy(kDown, {device.get(), 0}, {second.get(), 1}, 256, {work});
  ASSERT_TRUE(movement.Wait(copy, "the copy").ok());
  EXPECT_GT(absl::Now() - computed, absl::Milliseconds(45));
}

TEST(EmulatedMovementTest, AWaitHasADeadlineAndAName) {
  EmulatedMovement movement({.mode = EmulatedMovement::Mode::kThreads,
                             .up_bytes_per_second = 1e-3,
                             .timeout = absl::Milliseconds(1)});
  const auto host = Make(movement, MemorySide::kHost), device = Make(movement, MemorySide::kDevice);
  const MoveToken up = movement.Copy(kUp, {host.get(), 0}, {device.get(), 0}, 256);
  const absl::Status status = movement.Wait(up, "the state of subgroup 3");
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr("the state of subgroup 3"));
}

TEST(EmulatedMovementTest, EveryWaitAsksHowLongItMayTake) {
  int asked = 0;
  EmulatedMovement movement({.mode = EmulatedMovement::Mode::kThreads,
                             .timeout = Patience([&asked] {
                               return ++asked == 1 ? absl::Milliseconds(1) : absl::Minutes(1);
                             })});
  absl::Notification goes_on;
  const MoveToken work = movement.Compute(
      [&](void*) {
        goes_on.WaitForNotification();
        return absl::OkStatus();
      },
      {}, {});
  EXPECT_TRUE(absl::IsDeadlineExceeded(movement.Wait(work, "the first time")));
  goes_on.Notify();
  EXPECT_TRUE(movement.Wait(work, "the second time").ok());
  EXPECT_EQ(asked, 2);
}

}  // namespace
}  // namespace longhaul

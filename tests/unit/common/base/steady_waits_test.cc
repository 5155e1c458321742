// Abseil's waits while the wall clock of this process differs from the kernel's, as it does for a
// wait that has begun when the clock is set.
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "common/base/clock.h"
#include "gtest/gtest.h"

namespace {

std::atomic<time_t> set_by_seconds = 0;

}  // namespace

// In place of that of the C library, also for the libraries of this program.
extern "C" int clock_gettime(clockid_t clock, timespec* now) noexcept {
  const int64_t result = syscall(SYS_clock_gettime, clock, now);
  if (clock == CLOCK_REALTIME) now->tv_sec += set_by_seconds;
  return static_cast<int>(result);
}
extern "C" int gettimeofday(timeval* now, void*) noexcept {
  timespec time;
  clock_gettime(CLOCK_REALTIME, &time);
  *now = {time.tv_sec, time.tv_nsec / 1000};
  return 0;
}

namespace longhaul {
namespace {

constexpr absl::Duration kWait = absl::Milliseconds(100);

class SteadyWaitsTest : public testing::TestWithParam<int> {
 protected:
  ~SteadyWaitsTest() override { set_by_seconds = 0; }
  static absl::Time Wall() {
    timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return absl::TimeFromTimespec(now);
  }
  static void ExpectWait() {
    const absl::Time begin = SteadyTime();
    EXPECT_FALSE(never_.WaitForNotificationWithTimeout(kWait));
    EXPECT_GE(SteadyTime() - begin, kWait - absl::Milliseconds(1));
    EXPECT_LT(SteadyTime() - begin, kWait + absl::Seconds(30));
  }
  static void ExpectWaitUntil(absl::Time end, absl::Duration wait = kWait) {
    absl::Mutex mutex;
    absl::CondVar changed;
    absl::MutexLock lock(&mutex);
    const absl::Time begin = SteadyTime();
    EXPECT_TRUE(changed.WaitWithDeadline(&mutex, end));
    EXPECT_GE(SteadyTime() - begin, wait - absl::Milliseconds(1));
    EXPECT_LT(SteadyTime() - begin, wait + absl::Seconds(30));
  }
  static absl::Notification never_;
};
absl::Notification SteadyWaitsTest::never_;

INSTANTIATE_TEST_SUITE_P(Set, SteadyWaitsTest, testing::Values(-3600, -60, 0, 60, 3600));

TEST_P(SteadyWaitsTest, LastAsLongAsTheyShould) {
  set_by_seconds = GetParam();
  ExpectWait();
}

TEST_P(SteadyWaitsTest, AlsoIfTheClockIsSetMeanwhile) {
  std::jthread setting([] {
    absl::SleepFor(kWait / 4);
    set_by_seconds = GetParam();
  });
  ExpectWait();
}

// As gRPC's timers.
TEST_P(SteadyWaitsTest, UntilATimeOfTheClock) {
  set_by_seconds = GetParam();
  ExpectWaitUntil(Wall() + kWait);
}

TEST_P(SteadyWaitsTest, AlsoIfTheClockIsSetAsTheyBegin) {
  ExpectWaitUntil(Wall() + absl::Milliseconds(1), absl::Milliseconds(1));
  const absl::Time end = Wall() + kWait;
  set_by_seconds = GetParam();
  ExpectWaitUntil(end);
}

TEST(WokenThreadTest, EndsItsWait) {
  absl::Notification done;
  std::jthread waking([&] { done.Notify(); });
  EXPECT_TRUE(done.WaitForNotificationWithTimeout(absl::Seconds(60)));
  absl::Notification again;
  std::jthread waking_again([&] { again.Notify(); });
  again.WaitForNotification();
}

}  // namespace
}  // namespace longhaul

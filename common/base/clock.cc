#include "common/base/clock.h"

#include <time.h>

#include <algorithm>

#include "absl/time/clock.h"

namespace longhaul {
namespace {

// How much faster or slower a corrected time passes, and which difference is none.
constexpr int kCorrection = 10;
constexpr absl::Duration kTolerance = absl::Seconds(1);

class SystemClock : public Clock {
 public:
  absl::Time Now() const override {
    absl::MutexLock lock(&mutex_);
    return time_.At(absl::Now(), SteadyTime() - absl::UnixEpoch());
  }
  absl::Time Wall() const override { return absl::Now(); }
  void SleepUntil(absl::Time deadline) override {
    for (absl::Time now = Now(); now < deadline; now = Now()) absl::SleepFor(deadline - now);
  }

 private:
  mutable absl::Mutex mutex_;
  mutable EvenTime time_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

absl::Time SteadyTime() {
  timespec now;
  clock_gettime(CLOCK_BOOTTIME, &now);
  return absl::UnixEpoch() + absl::DurationFromTimespec(now);
}

absl::Time EvenTime::At(absl::Time wall, absl::Duration passed) {
  if (time_ == absl::InfinitePast()) {
    time_ = wall;
  } else {
    const absl::Duration step = std::max(passed - passed_, absl::ZeroDuration());
    time_ += step;
    const absl::Duration behind = wall - time_, correction = step / kCorrection;
    if (behind > kTolerance) time_ += std::min(correction, behind - kTolerance);
    if (behind < -kTolerance) time_ -= std::min(correction, -behind - kTolerance);
  }
  passed_ = passed;
  return time_;
}

std::unique_ptr<Clock> MakeSystemClock() { return std::make_unique<SystemClock>(); }

absl::Time InSteadyTime(const Clock& clock, absl::Time time) {
  return SteadyTime() + (time - clock.Now());
}

absl::Time ManualClock::Now() const {
  absl::MutexLock lock(&mutex_);
  return now_;
}

void ManualClock::SleepUntil(absl::Time deadline) {
  absl::MutexLock lock(&mutex_);
  const auto reached = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return now_ >= deadline; };
  mutex_.Await(absl::Condition(&reached));
}

void ManualClock::Advance(absl::Duration duration) {
  absl::MutexLock lock(&mutex_);
  now_ += duration;
}

}  // namespace longhaul

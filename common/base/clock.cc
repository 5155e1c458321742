#include "common/base/clock.h"

#include <algorithm>

#include "absl/time/clock.h"

namespace longhaul {
namespace {

class SystemClock : public Clock {
 public:
  absl::Time Now() const override {
    absl::MutexLock lock(&mutex_);
    // If the wall clock steps back, leases must neither expire nor become longer.
    last_ = std::max(last_, absl::Now());
    return last_;
  }
  void SleepUntil(absl::Time deadline) override {
    for (absl::Time now = Now(); now < deadline; now = Now()) absl::SleepFor(deadline - now);
  }

 private:
  mutable absl::Mutex mutex_;
  mutable absl::Time last_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
};

}  // namespace

std::unique_ptr<Clock> MakeSystemClock() { return std::make_unique<SystemClock>(); }

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

// The interface of time. Cores never read a clock: they get `now` as an argument. Shells read one
// of these.
#pragma once

#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace longhaul {

// Thread-safe. Sleep blocks the calling thread.
class Clock {
 public:
  virtual ~Clock() = default;
  // Never goes backwards within one object.
  virtual absl::Time Now() const = 0;
  // Returns once Now() >= deadline.
  virtual void SleepUntil(absl::Time deadline) = 0;
  void Sleep(absl::Duration duration) { SleepUntil(Now() + duration); }
};

// The machine's wall clock. It is kept from going backwards.
std::unique_ptr<Clock> MakeSystemClock();

// A clock that only Advance moves. SleepUntil blocks until another thread advances far enough.
class ManualClock : public Clock {
 public:
  explicit ManualClock(absl::Time start = absl::UnixEpoch()) : now_(start) {}
  absl::Time Now() const override;
  void SleepUntil(absl::Time deadline) override;
  void Advance(absl::Duration duration);

 private:
  mutable absl::Mutex mutex_;
  absl::Time now_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace longhaul

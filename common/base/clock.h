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
  // What the wall clock shows, for people to compare. It may be set, also back.
  virtual absl::Time Wall() const { return Now(); }
  // Returns once Now() >= deadline.
  virtual void SleepUntil(absl::Time deadline) = 0;
  void Sleep(absl::Duration duration) { SleepUntil(Now() + duration); }
};

// A time that passes evenly, made of two clocks of a machine: the wall clock, which may be set, and
// one that counts the time that passes. When the wall clock was set, this time approaches it: it
// passes by at most a tenth faster or slower until less than a second is left. So a lease neither
// ends nor becomes long because somebody set the clock. Pure; not thread-safe.
class EvenTime {
 public:
  // `passed`: since a fixed moment. Never less than in an earlier call.
  absl::Time At(absl::Time wall, absl::Duration passed);

 private:
  absl::Time time_ = absl::InfinitePast();
  absl::Duration passed_;
};

// How long the machine has run, as a time: to measure how long something takes. Only differences
// mean anything. It does not change when the wall clock is set.
absl::Time SteadyTime();

// The machine's time: EvenTime of its clocks. While the machine sleeps, time passes.
std::unique_ptr<Clock> MakeSystemClock();

// What SteadyTime will be when `clock` shows `time`. The infinite future stays so.
absl::Time InSteadyTime(const Clock& clock, absl::Time time);

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

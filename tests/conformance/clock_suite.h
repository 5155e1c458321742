// What every Clock does. Instantiate it with a fixture type that has `Clock& clock()` and `void
// Pass(absl::Duration)`, which makes at least that much time pass on the clock.
#pragma once

#include <thread>

#include "absl/synchronization/notification.h"
#include "common/base/clock.h"
#include "gtest/gtest.h"

namespace longhaul {

template <typename Fixture>
class ClockSuite : public testing::Test {
 protected:
  Fixture fixture_;
};
TYPED_TEST_SUITE_P(ClockSuite);

TYPED_TEST_P(ClockSuite, NeverGoesBackwards) {
  Clock& clock = this->fixture_.clock();
  absl::Time last = clock.Now();
  for (int i = 0; i < 1000; ++i) {
    const absl::Time now = clock.Now();
    ASSERT_GE(now, last);
    last = now;
  }
}

TYPED_TEST_P(ClockSuite, AdvancesByWhatPassed) {
  Clock& clock = this->fixture_.clock();
  const absl::Time before = clock.Now();
  this->fixture_.Pass(absl::Milliseconds(20));
  EXPECT_GE(clock.Now() - before, absl::Milliseconds(20));
}

TYPED_TEST_P(ClockSuite, SleepingUntilThePastReturns) {
  Clock& clock = this->fixture_.clock();
  clock.SleepUntil(clock.Now() - absl::Seconds(1));
  clock.SleepUntil(clock.Now());
}

TYPED_TEST_P(ClockSuite, ASleeperWakesAtItsDeadline) {
  Clock& clock = this->fixture_.clock();
  const absl::Time deadline = clock.Now() + absl::Milliseconds(30);
  absl::Time woke = absl::InfinitePast();
  std::thread sleeper([&] {
    clock.SleepUntil(deadline);
    woke = clock.Now();
  });
  this->fixture_.Pass(absl::Milliseconds(30));
  sleeper.join();
  EXPECT_GE(woke, deadline);
}

REGISTER_TYPED_TEST_SUITE_P(ClockSuite, NeverGoesBackwards, AdvancesByWhatPassed,
                            SleepingUntilThePastReturns, ASleeperWakesAtItsDeadline);

}  // namespace longhaul

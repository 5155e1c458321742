#include "common/rpc/pacer.h"

#include "common/base/clock.h"
#include "gtest/gtest.h"

namespace longhaul {
namespace {

constexpr absl::Time kStart = absl::UnixEpoch();

TEST(PacerTest, SpacesWhatIsSentByItsRate) {
  Pacer pacer(1000);
  EXPECT_LE(pacer.Reserve(500, kStart), kStart);
  const absl::Time second = pacer.Reserve(500, kStart), third = pacer.Reserve(100, kStart);
  EXPECT_EQ(third - second, absl::Milliseconds(500));
  EXPECT_EQ(pacer.Reserve(1, kStart) - third, absl::Milliseconds(100));
}

TEST(PacerTest, SharesTheRateAmongThoseWhoAsk) {
  Pacer pacer(1000);
  const absl::Time first = pacer.Reserve(1000, kStart);
  for (int i = 1; i <= 10; ++i) {
    EXPECT_EQ(pacer.Reserve(1000, kStart + absl::Milliseconds(i)) - first, absl::Seconds(i));
  }
}

TEST(PacerTest, APauseIsNotSavedUp) {
  Pacer pacer(1000);
  pacer.Reserve(1000, kStart);
  const absl::Time later = kStart + absl::Hours(1);
  EXPECT_LE(pacer.Reserve(1000, later), later);
  EXPECT_GT(pacer.Reserve(1000, later), later + absl::Milliseconds(900));
}

TEST(PacerTest, AStopEndsAWait) {
  Pacer pacer(1);
  pacer.Reserve(1'000'000, SteadyTime());
  std::stop_source stop;
  stop.request_stop();
  // Without the stop it would wait for days.
  pacer.Wait(1, stop.get_token());
}

TEST(PacerTest, WhatAStopKeptFromBeingSentDoesNotCount) {
  Pacer pacer(1000);
  pacer.Reserve(60'000, SteadyTime());
  std::stop_source stop;
  stop.request_stop();
  for (int i = 0; i < 100; ++i) pacer.Wait(60'000, stop.get_token());
  const absl::Time now = SteadyTime();
  EXPECT_LE(pacer.Reserve(1, now), now + absl::Minutes(1));
}

}  // namespace
}  // namespace longhaul

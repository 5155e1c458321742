#include "common/base/clock.h"

#include <gtest/gtest.h>

namespace longhaul {
namespace {

// A machine whose wall clock is set now and then.
class EvenTimeTest : public testing::Test {
 protected:
  absl::Time Now() { return time_.At(wall_, passed_); }
  void Pass(absl::Duration duration) {
    wall_ += duration;
    passed_ += duration;
  }
  // The shortest and the longest second of the next ones.
  std::pair<absl::Duration, absl::Duration> Seconds(int count) {
    absl::Duration least = absl::InfiniteDuration(), most = absl::ZeroDuration();
    for (int i = 0; i < count; ++i) {
      const absl::Time before = Now();
      Pass(absl::Seconds(1));
      least = std::min(least, Now() - before);
      most = std::max(most, Now() - before);
    }
    return {least, most};
  }

  EvenTime time_;
  absl::Time wall_ = absl::FromUnixSeconds(1'700'000'000);
  absl::Duration passed_ = absl::Hours(5);
};

TEST_F(EvenTimeTest, IsTheWallClockIfNobodySetsIt) {
  EXPECT_EQ(Now(), wall_);
  const auto [least, most] = Seconds(100);
  EXPECT_EQ(least, absl::Seconds(1));
  EXPECT_EQ(most, absl::Seconds(1));
  EXPECT_EQ(Now(), wall_);
}

TEST_F(EvenTimeTest, PassesOnWhenTheWallClockIsSetBack) {
  Now();
  wall_ -= absl::Hours(1);
  const auto [least, most] = Seconds(100);
  EXPECT_GE(least, absl::Milliseconds(900)) << "a lease must end although the clock was set";
  EXPECT_LE(most, absl::Seconds(1));
}

TEST_F(EvenTimeTest, DoesNotJumpWhenTheWallClockIsSetForward) {
  Now();
  wall_ += absl::Hours(1);
  const auto [least, most] = Seconds(100);
  EXPECT_GE(least, absl::Seconds(1));
  EXPECT_LE(most, absl::Milliseconds(1100)) << "no lease may end because the clock was set";
}

TEST_F(EvenTimeTest, ApproachesTheWallClock) {
  Now();
  for (const absl::Duration set : {absl::Minutes(10), -absl::Minutes(20)}) {
    wall_ += set;
    Seconds(3 * 60 * 60 + 20 * 60);
    EXPECT_LE(absl::AbsDuration(wall_ - Now()), absl::Seconds(1));
  }
}

TEST_F(EvenTimeTest, NeverGoesBackwards) {
  absl::Time last = Now();
  for (const int minutes : {-3, 7, -600, 1, 0}) {
    wall_ += absl::Minutes(minutes);
    EXPECT_GE(Now(), last);
    last = Now();
    Pass(absl::Milliseconds(1));
  }
}

TEST(InSteadyTimeTest, KeepsHowMuchTimeIsLeft) {
  ManualClock clock(absl::FromUnixSeconds(100));
  const absl::Time before = SteadyTime();
  const absl::Time deadline = InSteadyTime(clock, clock.Now() + absl::Seconds(30));
  EXPECT_GE(deadline, before + absl::Seconds(30));
  EXPECT_LE(deadline, SteadyTime() + absl::Seconds(30));
  EXPECT_EQ(InSteadyTime(clock, absl::InfiniteFuture()), absl::InfiniteFuture());
}

}  // namespace
}  // namespace longhaul

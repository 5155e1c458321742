#include "coordinator/access/call_rate.h"

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace longhaul::coordinator {
namespace {

const absl::Time kStart = absl::FromUnixSeconds(1700000000);

TEST(CallRateTest, ABurstThenASteadyRate) {
  CallRate rate(10, 20);
  for (int i = 0; i < 20; ++i) EXPECT_EQ(rate.Take("a", kStart), absl::ZeroDuration()) << i;
  EXPECT_EQ(rate.Take("a", kStart), absl::Milliseconds(100));
  EXPECT_EQ(rate.Take("a", kStart + absl::Milliseconds(100)), absl::ZeroDuration());
  EXPECT_GT(rate.Take("a", kStart + absl::Milliseconds(100)), absl::ZeroDuration());
  // An hour's pause saves no more than a burst.
  int taken = 0;
  while (rate.Take("a", kStart + absl::Hours(1)) == absl::ZeroDuration()) ++taken;
  EXPECT_EQ(taken, 20);
}

TEST(CallRateTest, CallersDoNotPayForEachOther) {
  CallRate rate(1, 1);
  EXPECT_EQ(rate.Take("a", kStart), absl::ZeroDuration());
  EXPECT_GT(rate.Take("a", kStart), absl::ZeroDuration());
  EXPECT_EQ(rate.Take("b", kStart), absl::ZeroDuration());
}

TEST(CallRateTest, AClockThatGoesBackGivesNothingAway) {
  CallRate rate(1, 1);
  EXPECT_EQ(rate.Take("a", kStart), absl::ZeroDuration());
  EXPECT_GT(rate.Take("a", kStart - absl::Hours(1)), absl::ZeroDuration());
  EXPECT_GT(rate.Take("a", kStart), absl::ZeroDuration());
}

TEST(CallRateTest, ZeroIsNoLimitAndManyCallersAreForgotten) {
  CallRate none(0, 1);
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(none.Take("a", kStart), absl::ZeroDuration());
  CallRate rate(1, 2);
  for (size_t i = 0; i < 3 * CallRate::kCallersMax; ++i) {
    EXPECT_EQ(rate.Take(absl::StrCat(i), kStart + absl::Seconds(i)), absl::ZeroDuration());
  }
}

}  // namespace
}  // namespace longhaul::coordinator

#include "coordinator/cli/link_measure.h"

#include "gtest/gtest.h"

namespace longhaul::cli {
namespace {

TEST(LinkMeasureTest, AQuickCallIsNotTakenForAFastLink) {
  ManualClock clock;
  int calls = 0;
  const absl::StatusOr<double> rate = RateOf(clock, [&](int bytes) {
    // A round trip of 50 ms, and 10 MB a second.
    clock.Advance(absl::Milliseconds(50) + absl::Microseconds(bytes / 10));
    ++calls;
    return absl::OkStatus();
  });
  ASSERT_TRUE(rate.ok()) << rate.status();
  EXPECT_GT(calls, 5);
  EXPECT_LE(*rate, 1e7);
  EXPECT_GT(*rate, 5e6);
}

TEST(LinkMeasureTest, ACallThatFailsEndsIt) {
  ManualClock clock;
  EXPECT_TRUE(absl::IsUnavailable(
      RateOf(clock, [](int) { return absl::UnavailableError("away"); }).status()));
}

}  // namespace
}  // namespace longhaul::cli

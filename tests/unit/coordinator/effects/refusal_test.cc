#include "coordinator/effects/refusal.h"

#include <gtest/gtest.h>

#include "common/rpc/status_details.h"

namespace longhaul::coordinator {
namespace {

TEST(RefusalTest, CarriesReasonVersionAndDelay) {
  const absl::Status status = ToStatus({.status = absl::FailedPreconditionError("late"),
                                        .reason = "VERSION_MISMATCH",
                                        .have = 4,
                                        .retry_after = absl::Seconds(3)});
  EXPECT_TRUE(absl::IsFailedPrecondition(status));
  EXPECT_EQ(status.message(), "late");
  ASSERT_TRUE(ErrorInfoOf(status).has_value());
  EXPECT_EQ(ErrorInfoOf(status)->reason, "VERSION_MISMATCH");
  EXPECT_EQ(ErrorInfoOf(status)->metadata.at("have"), "4");
  EXPECT_EQ(RetryDelayOf(status), absl::Seconds(3));
}

TEST(RefusalTest, LeavesOutMissingFields) {
  const absl::Status status =
      ToStatus({.status = absl::NotFoundError("no job"), .reason = "JOB_UNKNOWN"});
  EXPECT_TRUE(ErrorInfoOf(status)->metadata.empty());
  EXPECT_FALSE(RetryDelayOf(status).has_value());
}

TEST(RefusalTest, AnOverloadMayBeRepeated) {
  EXPECT_TRUE(absl::IsResourceExhausted(Overloaded()));
  EXPECT_EQ(RetryDelayOf(Overloaded()), absl::Seconds(1));
}

}  // namespace
}  // namespace longhaul::coordinator

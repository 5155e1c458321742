#include "coordinator/store/fatal.h"

#include "gtest/gtest.h"

namespace longhaul {
namespace {

TEST(FatalTest, TheMarkStaysOnTheStatus) {
  const absl::Status status = MarkFatal(absl::DataLossError("gone"));
  EXPECT_TRUE(IsFatal(status));
  EXPECT_TRUE(absl::IsDataLoss(status));
  const absl::Status copy = status;
  EXPECT_TRUE(IsFatal(copy));
}

TEST(FatalTest, OtherErrorsAreNotFatal) {
  EXPECT_FALSE(IsFatal(absl::OkStatus()));
  EXPECT_FALSE(IsFatal(absl::DataLossError("gone")));
}

}  // namespace
}  // namespace longhaul

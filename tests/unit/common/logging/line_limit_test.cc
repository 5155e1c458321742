#include "common/logging/line_limit.h"

#include "gtest/gtest.h"

namespace longhaul {
namespace {

TEST(LineLimitTest, LinesPassAgainInTheNextInterval) {
  LineLimit limit(2, absl::Seconds(10));
  const absl::Time start = absl::UnixEpoch();
  EXPECT_EQ(limit.Take(start), 0);
  EXPECT_EQ(limit.Take(start + absl::Seconds(9)), 0);
  EXPECT_EQ(limit.Take(start + absl::Seconds(9)), std::nullopt);
  EXPECT_EQ(limit.Take(start + absl::Seconds(9)), std::nullopt);
  EXPECT_EQ(limit.Take(start + absl::Seconds(10)), 2);
  EXPECT_EQ(limit.Take(start + absl::Seconds(19)), 0);
  EXPECT_EQ(limit.Take(start + absl::Seconds(19)), std::nullopt);
  EXPECT_EQ(limit.Take(start + absl::Seconds(100)), 1);
}

}  // namespace
}  // namespace longhaul

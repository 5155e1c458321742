#include "common/logging/line_limit.h"

#include <utility>
#include <vector>

#include "gmock/gmock.h"
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

TEST(RepeatLimitTest, WhatGoesOnIsToldMoreAndMoreSeldom) {
  RepeatLimit limit(absl::Seconds(10), absl::Seconds(35));
  std::vector<std::pair<int, int64_t>> told;
  // Twice a second.
  for (int half = 0; half < 2 * 120; ++half) {
    const absl::Time now = absl::UnixEpoch() + half * absl::Milliseconds(500);
    if (const auto left_out = limit.Take(now)) told.emplace_back(half / 2, *left_out);
  }
  using testing::Pair;
  EXPECT_THAT(told, testing::ElementsAre(Pair(0, 0), Pair(10, 19), Pair(30, 39), Pair(65, 69),
                                         Pair(100, 69)));
  // After it has stopped for a while it is news again, as after its first line.
  EXPECT_EQ(limit.Take(absl::UnixEpoch() + absl::Seconds(160)), 39);
  EXPECT_EQ(limit.Take(absl::UnixEpoch() + absl::Seconds(161)), std::nullopt);
  EXPECT_EQ(limit.Take(absl::UnixEpoch() + absl::Seconds(170)), 1);
}

}  // namespace
}  // namespace longhaul

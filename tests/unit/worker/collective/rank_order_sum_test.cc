#include "worker/collective/rank_order_sum.h"

#include <vector>

#include "gtest/gtest.h"

namespace longhaul {
namespace {

TEST(RankOrderSumTest, AddsInTheOrderOfTheSources) {
  // 1e8f swallows a 1: the two orders differ.
  const float big = 1e8f, one = 1, minus_big = -1e8f;
  const float* forward[] = {&big, &one, &minus_big};
  const float* backward[] = {&big, &minus_big, &one};
  float sum;
  RankOrderSum<float>(forward, &sum, 1);
  EXPECT_EQ(sum, 0);
  RankOrderSum<float>(backward, &sum, 1);
  EXPECT_EQ(sum, 1);
}

TEST(RankOrderSumTest, MayOverwriteASourceAtAnyLength) {
  for (const int64_t count : {0, 1, 1023, 1024, 1025, 5000}) {
    std::vector<float> a(count), b(count), c(count, 2);
    for (int64_t i = 0; i < count; ++i) a[i] = i, b[i] = 3 * i;
    const float* sources[] = {a.data(), b.data(), c.data()};
    RankOrderSum<float>(sources, b.data(), count);
    for (int64_t i = 0; i < count; ++i) ASSERT_EQ(b[i], 4 * i + 2);
  }
}

}  // namespace
}  // namespace longhaul

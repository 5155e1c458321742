#include "worker/collective/rank_order_sum.h"

#include <vector>

#include "gtest/gtest.h"

namespace longhaul {
namespace {

TEST(RankOrderSumTest, AddsInTheOrderOfTheSources) {
  // Added to 1e8f, a 1 is lost, so the two orders differ.
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

TEST(RankOrderSumTest, AnyNumberOfThreadsGivesTheSameBits) {
  constexpr int64_t kCount = 200'003;
  std::vector<std::vector<float>> inputs(3, std::vector<float>(kCount));
  std::vector<const float*> sources;
  for (std::vector<float>& input : inputs) {
    for (int64_t i = 0; i < kCount; ++i)
      input[i] = 1.7f * static_cast<float>((i * 31 + static_cast<int64_t>(sources.size())) % 1009);
    sources.push_back(input.data());
  }
  std::vector<float> alone(kCount);
  RankOrderSum<float>(sources, alone.data(), kCount);
  for (const int threads : {1, 2, 5}) {
    ThreadTeam team(threads);
    std::vector<float> sum(kCount);
    RankOrderSum<float>(sources, sum.data(), kCount, &team);
    EXPECT_EQ(sum, alone) << threads;
  }
}

}  // namespace
}  // namespace longhaul

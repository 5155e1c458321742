#include "worker/graph/seed_plan.h"

#include <algorithm>
#include <vector>

#include "common/base/share.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace longhaul {
namespace {

SeedPlan PlanOf(int64_t seeds, int64_t batch, uint64_t seed = 1, int64_t pool = 0) {
  return SeedPlan::Create({.seeds = seeds, .batch = batch, .seed = seed, .pool = pool}).value();
}

std::vector<int64_t> BatchOfAll(const SeedPlan& plan, int64_t step, int ranks) {
  std::vector<int64_t> all;
  for (int rank = 0; rank < ranks; ++rank) {
    const std::vector<int64_t> part = plan.Take(step, rank, ranks);
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

TEST(SeedPlanTest, AnEpochVisitsEachSeedOnce) {
  for (const int64_t seeds : {1, 3, 4097, 5000}) {
    for (const int64_t batch :
         {int64_t{1}, int64_t{1000}, int64_t{1024}, seeds - 1, seeds, seeds + 1}) {
      if (batch < 1) continue;
      const SeedPlan plan = PlanOf(seeds, batch);
      for (const int ranks : {1, 2, 3, 4}) {
        std::vector<int64_t> visited;
        // The second epoch: it is like the first.
        for (int64_t i = 1; i <= plan.steps_of_epoch(); ++i) {
          const int64_t step = plan.steps_of_epoch() + i;
          const std::vector<int64_t> all = BatchOfAll(plan, step, ranks);
          EXPECT_EQ(all, BatchOfAll(plan, step, 1)) << "for any number of ranks";
          EXPECT_EQ(static_cast<int64_t>(all.size()), plan.BatchOf(step));
          EXPECT_LE(plan.BatchOf(step), batch);
          EXPECT_GE(plan.BatchOf(step), plan.BatchOf(1) - 1) << "no small batch";
          visited.insert(visited.end(), all.begin(), all.end());
        }
        std::sort(visited.begin(), visited.end());
        ASSERT_EQ(static_cast<int64_t>(visited.size()), seeds);
        for (int64_t i = 0; i < seeds; ++i) ASSERT_EQ(visited[i], i);
      }
    }
  }
}

TEST(SeedPlanTest, RanksGetEqualParts) {
  // 4,097 seeds on 4 ranks; a batch smaller than the number of ranks.
  for (const int64_t batch : {4097, 1024, 3}) {
    const SeedPlan plan = PlanOf(4097, batch);
    for (int64_t step = 1; step <= plan.steps_of_epoch(); ++step) {
      const int64_t least = plan.BatchOf(step) / 4;
      for (int rank = 0; rank < 4; ++rank) {
        const auto part = static_cast<int64_t>(plan.Take(step, rank, 4).size());
        EXPECT_TRUE(part == least || part == least + 1);
      }
    }
  }
}

TEST(SeedPlanTest, FewSeedsComeAtEveryStep) {
  const SeedPlan plan = PlanOf(3, 1024);
  for (int64_t step = 1; step <= 10; ++step) {
    EXPECT_THAT(plan.Take(step, 0, 1), ::testing::UnorderedElementsAre(0, 1, 2));
    EXPECT_EQ(plan.Take(step, 3, 4).size(), 0U);
  }
}

TEST(SeedPlanTest, EpochsPoolsAndSeedsHaveOtherOrders) {
  const SeedPlan plan = PlanOf(100, 100);
  EXPECT_EQ(plan.Take(1, 0, 1), PlanOf(100, 100).Take(1, 0, 1));
  EXPECT_NE(plan.Take(1, 0, 1), plan.Take(2, 0, 1));
  EXPECT_NE(plan.Take(1, 0, 1), PlanOf(100, 100, 2).Take(1, 0, 1));
  EXPECT_NE(plan.Take(1, 0, 1), PlanOf(100, 100, 1, 1).Take(1, 0, 1));
}

TEST(SeedPlanTest, RefusesNothingToTrainOn) {
  EXPECT_FALSE(SeedPlan::Create({.seeds = 0, .batch = 1}).ok());
  EXPECT_FALSE(SeedPlan::Create({.seeds = 1, .batch = 0}).ok());
}

TEST(ShareOfTest, CoversAllInOrder) {
  for (const int64_t count : {0, 1, 3, 4, 5, 1000}) {
    for (const int ranks : {1, 2, 4, 7}) {
      int64_t next = 0;
      for (int rank = 0; rank < ranks; ++rank) {
        const Share share = ShareOf(count, rank, ranks);
        EXPECT_EQ(share.first, next);
        EXPECT_LE(share.count, count / ranks + 1);
        next = share.end();
      }
      EXPECT_EQ(next, count);
    }
  }
}

}  // namespace
}  // namespace longhaul

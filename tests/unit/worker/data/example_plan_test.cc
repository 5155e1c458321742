#include "worker/data/example_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "worker/data/permutation.h"

namespace longhaul {
namespace {

using testing::HasSubstr;

TEST(PermutationTest, IsABijectionForEachKeyAndSize) {
  for (const int64_t n : {1, 2, 3, 4, 5, 16, 17, 63, 64, 65, 1000, 65536}) {
    for (const uint64_t key : {uint64_t{0}, uint64_t{1}, ~uint64_t{0}}) {
      std::set<int64_t> seen;
      for (int64_t i = 0; i < n; ++i) seen.insert(Permute(key, n, i));
      EXPECT_EQ(static_cast<int64_t>(seen.size()), n);
      EXPECT_GE(*seen.begin(), 0);
      EXPECT_LT(*seen.rbegin(), n);
    }
  }
  EXPECT_LT(Permute(7, int64_t{1} << 40, 12345), int64_t{1} << 40);
}

TEST(PermutationTest, ShufflesWell) {
  // Neighbours are as far from each other as in a random order, a third of the length.
  constexpr int64_t kSize = 10007;
  double distance = 0;
  int64_t fixed = 0;
  for (int64_t i = 0; i + 1 < kSize; ++i) {
    distance += static_cast<double>(std::abs(Permute(3, kSize, i) - Permute(3, kSize, i + 1)));
    fixed += Permute(3, kSize, i) == i;
  }
  EXPECT_NEAR(distance / kSize / kSize, 1.0 / 3, 0.02);
  EXPECT_LT(fixed, 10);
}

ExamplePlan::Options Alone(DataOrder order = DataOrder::kDraws) {
  return {.sources = {{"a", 100001}},
          .order = order,
          .context = 10,
          .batch = 4,
          .eval_fraction = 0.1,
          .seed = 5,
          .pool = 1};
}

ExamplePlan::Options Mixture(DataOrder order = DataOrder::kDraws) {
  ExamplePlan::Options options = Alone(order);
  options.sources = {{"a", 100001, 6}, {"b", 50000, 3}, {"c", 1000, 1}};
  return options;
}

TEST(ExamplePlanTest, OneSourceIsDrawnFromAsItsWindowsSay) {
  const auto plan = ExamplePlan::Create(Alone()).value();
  const auto windows =
      Windows::Create({.tokens = 100001, .context = 10, .eval_fraction = 0.1, .seed = 5, .pool = 1})
          .value();
  for (int64_t step = 1; step < 50; ++step) {
    for (int64_t sequence = 0; sequence < 4; ++sequence)
      EXPECT_EQ(plan.Train(step, sequence).first, windows.Train(step, sequence));
  }
  for (int64_t i = 0; i < 20; ++i) EXPECT_EQ(plan.Eval(i, 20).first, windows.Eval(i, 20));
}

TEST(ExamplePlanTest, EpochsSeeEachWindowOnceInAnotherOrderEachTime) {
  const auto plan = ExamplePlan::Create(Alone(DataOrder::kEpochs)).value();
  // 90,000 tokens to train on: 8,999 windows of 10 and the token behind.
  std::vector<int64_t> order;
  for (int64_t step = 1; order.size() < 2 * 8999; ++step) {
    for (int64_t sequence = 0; sequence < 4; ++sequence)
      order.push_back(plan.Train(step, sequence).first);
  }
  const std::set<int64_t> first(order.begin(), order.begin() + 8999);
  const std::set<int64_t> second(order.begin() + 8999, order.begin() + 2 * 8999);
  EXPECT_EQ(first.size(), 8999);
  EXPECT_EQ(first, second);
  for (const int64_t at : first) EXPECT_EQ(at % 10, 0);
  EXPECT_LE(*first.rbegin() + 11, 90000);
  EXPECT_NE(std::vector<int64_t>(order.begin(), order.begin() + 100),
            std::vector<int64_t>(order.begin() + 8999, order.begin() + 9099));
}

TEST(ExamplePlanTest, AMixtureKeepsItsWeightsExactlyInEachBlock) {
  const auto plan = ExamplePlan::Create(Mixture()).value();
  std::map<int, int64_t> counts, early;
  for (int64_t example = 0; example < 2 * ExamplePlan::kMixtureBlock; ++example) {
    const int source = plan.Train(1 + example / 4, example % 4).source;
    ++counts[source];
    if (example < 1000) ++early[source];
  }
  EXPECT_EQ(counts[0], 2 * 39322);
  EXPECT_EQ(counts[1], 2 * 19660);
  EXPECT_EQ(counts[2], 2 * 6554);
  EXPECT_NEAR(early[0], 600, 60);
  EXPECT_NEAR(early[2], 100, 40);
}

TEST(ExamplePlanTest, EachSourceOfAMixtureIsReadInEpochs) {
  const auto plan = ExamplePlan::Create(Mixture(DataOrder::kEpochs)).value();
  // Of the third source: 900 tokens to train on, 89 windows.
  std::map<int64_t, int> seen;
  int64_t taken = 0;
  // Within a block the dealing is shuffled, so it is the whole block that counts.
  for (int64_t example = 0; example < ExamplePlan::kMixtureBlock; ++example) {
    const auto place = plan.Train(1 + example / 4, example % 4);
    if (place.source != 2) continue;
    ++seen[place.first];
    ++taken;
  }
  EXPECT_EQ(taken, 6554);
  EXPECT_EQ(seen.size(), 89);
  for (const auto& [first, times] : seen) EXPECT_NEAR(times, 6554.0 / 89, 1) << first;
}

TEST(ExamplePlanTest, PoolsAndSeedsDiffer) {
  ExamplePlan::Options options = Mixture();
  const auto plan = ExamplePlan::Create(options).value(),
             same = ExamplePlan::Create(options).value();
  options.pool = 2;
  const auto pool = ExamplePlan::Create(options).value();
  options.pool = 1;
  options.seed = 6;
  const auto seed = ExamplePlan::Create(options).value();
  int differ = 0;
  for (int64_t step = 1; step <= 20; ++step) {
    EXPECT_EQ(plan.Train(step, 3), same.Train(step, 3));
    differ += !(plan.Train(step, 3) == pool.Train(step, 3));
    differ += !(plan.Train(step, 3) == seed.Train(step, 3));
  }
  EXPECT_GT(differ, 30);
}

TEST(ExamplePlanTest, HeldOutExamplesComeFromEachSourcesEnd) {
  const auto plan = ExamplePlan::Create(Mixture()).value();
  std::map<int, int> counts;
  const int64_t ends[] = {100001, 50000, 1000};
  for (int64_t i = 0; i < 100; ++i) {
    const auto [source, first] = plan.Eval(i, 100);
    ++counts[source];
    EXPECT_GE(first, ends[source] * 9 / 10);
    EXPECT_LE(first + 11, ends[source]);
  }
  EXPECT_NEAR(counts[0], 60, 1);
  EXPECT_NEAR(counts[1], 30, 1);
  EXPECT_NEAR(counts[2], 10, 1);
  EXPECT_EQ(plan.Eval(0, 1).source, 0);
}

TEST(ExamplePlanTest, NamesTheSourceThatIsTooShortOrTooLight) {
  ExamplePlan::Options options = Mixture();
  options.sources[1].tokens = 15;
  EXPECT_THAT(std::string(ExamplePlan::Create(options).status().message()),
              HasSubstr("b: the data is too short"));
  options = Mixture();
  options.sources[2].weight = 1e-9;
  EXPECT_THAT(std::string(ExamplePlan::Create(options).status().message()),
              HasSubstr("c: its weight"));
}

}  // namespace
}  // namespace longhaul

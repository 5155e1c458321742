#include "worker/lm/sampler.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "common/base/random.h"

namespace longhaul {
namespace {

const std::vector<float> kLogits = {std::log(0.5f), std::log(0.1f), std::log(0.3f), std::log(0.1f)};

std::vector<double> Shares(const SamplingOptions& options) {
  constexpr int kTries = 20000;
  std::vector<double> shares(kLogits.size());
  Random random(1);
  for (int i = 0; i < kTries; ++i)
    shares[ChooseToken(kLogits, options, random.Uniform())] += 1.0 / kTries;
  return shares;
}

TEST(SamplerTest, GreedyTakesTheFirstOfTheMostProbable) {
  EXPECT_EQ(ChooseToken(kLogits, {.temperature = 0}, 0.999), 0);
  EXPECT_EQ(ChooseToken({1.0f, 3.0f, 3.0f}, {.temperature = 0}, 0.5), 1);
}

TEST(SamplerTest, TokensComeAsOftenAsTheyAreProbable) {
  const std::vector<double> shares = Shares({});
  const double expected[] = {0.5, 0.1, 0.3, 0.1};
  for (int i = 0; i < 4; ++i) EXPECT_NEAR(shares[i], expected[i], 0.02);
}

TEST(SamplerTest, TopPLeavesTheTailOut) {
  const std::vector<double> shares = Shares({.top_p = 0.75});
  EXPECT_NEAR(shares[0], 0.625, 0.02);
  EXPECT_NEAR(shares[2], 0.375, 0.02);
  EXPECT_EQ(shares[1] + shares[3], 0);
  EXPECT_EQ(ChooseToken(kLogits, {.top_p = 1e-6}, 0.999), 0);  // One is always left.
}

TEST(SamplerTest, ManyTokensAreCutWhereFewAre) {
  // More than are sorted at once; of equals the first ones stay.
  const std::vector<float> even(1000);
  EXPECT_EQ(ChooseToken(even, {.top_p = 0.5}, 0.999), 499);
  std::vector<float> rising(1000);
  for (size_t i = 0; i < rising.size(); ++i) rising[i] = 0.001f * static_cast<float>(i);
  EXPECT_EQ(ChooseToken(rising, {.top_p = 0.9}, 0), 999);
  // The tokens down to the last one just have 0.9 of all.
  const int64_t last = ChooseToken(rising, {.top_p = 0.9}, std::nextafter(1.0, 0.0));
  double kept = 0, total = 0;
  for (size_t i = 0; i < rising.size(); ++i) {
    total += std::exp(rising[i]);
    if (static_cast<int64_t>(i) >= last) kept += std::exp(rising[i]);
  }
  EXPECT_GE(kept, 0.9 * total);
  EXPECT_LT(kept - std::exp(rising[last]), 0.9 * total);
}

TEST(SamplerTest, ALowTemperatureSharpens) {
  EXPECT_NEAR(Shares({.temperature = 0.5})[0], 0.25 / 0.36, 0.02);
  EXPECT_EQ(ChooseToken({1000.0f, 0.0f}, {.temperature = 1e-3}, 0.5), 0);  // Does not overflow.
}

TEST(SamplerTest, EveryNumberChoosesAToken) {
  EXPECT_EQ(ChooseToken(kLogits, {}, 0), 0);
  EXPECT_EQ(ChooseToken(kLogits, {}, std::nextafter(1.0, 0.0)), 3);
  EXPECT_EQ(ChooseToken({-5.0f}, {.top_p = 0.5}, 0.7), 0);
}

}  // namespace
}  // namespace longhaul

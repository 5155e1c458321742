#include "common/plan/level_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace longhaul::plan {
namespace {

constexpr double kKiB = 1024, kMiB = 1024 * kKiB;
const std::vector<double> kCaches = {48 * kKiB, 2 * kMiB, 32 * kMiB};

std::vector<LevelSample> SamplesOf(const LevelModel& model, double off = 0) {
  std::vector<LevelSample> samples;
  int i = 0;
  for (double set = 16 * kKiB; set <= 256 * kMiB; set *= std::sqrt(2)) {
    const double noise = 1 + off * std::sin(7.0 * i++);
    samples.push_back({set, noise * model.Seconds(set)});
  }
  return samples;
}

LevelModel FitOf(const std::vector<LevelSample>& samples) {
  const auto model = FitLevels(samples, kCaches);
  EXPECT_TRUE(model.ok()) << model.status();
  return model.value_or(LevelModel());
}

// Times of 10^9 elements per second at the working sets of the measured anchors. 0: left out.
std::vector<LevelSample> AnchorsOf(std::initializer_list<double> rates) {
  const double sets[] = {0.26 * kMiB, 2 * kMiB, 33 * kMiB, 1070 * kMiB};
  std::vector<LevelSample> samples;
  size_t i = 0;
  for (const double rate : rates) {
    if (rate > 0) samples.push_back({sets[i], 1e-9 / rate});
    ++i;
  }
  return samples;
}

TEST(LevelModelTest, FindsTheTermsOfATimeThatHasThem) {
  const LevelModel truth{{1e-10, 2e-11, 5e-11, 4e-10}, kCaches};
  const LevelModel model = FitOf(SamplesOf(truth));
  for (int level = 0; level < 4; ++level)
    EXPECT_NEAR(model.terms[level], truth.terms[level], 1e-13) << level;
  EXPECT_EQ(model.Limit(32 * kKiB), MemoryLevel::kCore);
  EXPECT_EQ(model.Limit(256 * kMiB), MemoryLevel::kMemory);
  EXPECT_EQ(MemoryLevelName(MemoryLevel::kL3), "l3");
}

// Neighbours use a cache, too, or the system reports another machine's.
TEST(LevelModelTest, FindsTheSizesThatCount) {
  const LevelModel truth{{1e-10, 0, 1e-10, 8e-10}, {48 * kKiB, 2 * kMiB, 8 * kMiB}};
  const LevelModel model = FitOf(SamplesOf(truth));
  EXPECT_EQ(model.caches.back(), 8 * kMiB);
  EXPECT_NEAR(model.Seconds(64 * kMiB), truth.Seconds(64 * kMiB), 1e-12);
}

TEST(LevelModelTest, FittedToHalfOfTheSizesItPredictsTheOthers) {
  const LevelModel truth{{1e-10, 2e-11, 8e-11, 4e-10}, kCaches};
  const std::vector<LevelSample> samples = SamplesOf(truth, 0.1);
  std::vector<LevelSample> odd;
  for (size_t i = 0; i < samples.size(); i += 2) odd.push_back(samples[i]);
  const LevelModel model = FitOf(odd);
  std::vector<double> errors;
  for (size_t i = 1; i < samples.size(); i += 2)
    errors.push_back(std::abs(model.Seconds(samples[i].working_set) / samples[i].seconds - 1));
  std::sort(errors.begin(), errors.end());
  EXPECT_LE(errors[errors.size() / 2], 0.15);
}

// Of a processor with AVX-512, one thread: working sets of 0.26, 2, 33 and 1070 MiB.
TEST(LevelModelTest, TellsWhatMeasuredKernelsAreBoundBy) {
  const double large = 1070 * kMiB;
  EXPECT_EQ(FitOf(AnchorsOf({0.29, 0.30, 0.31, 0.28})).Limit(large), MemoryLevel::kCore)
      << "AdamW, scalar";
  // Its smallest set, 1.68, is left out: arrays that lay alike in their pages, which ours do not.
  EXPECT_EQ(FitOf(AnchorsOf({0, 3.44, 2.55, 1.51})).Limit(large), MemoryLevel::kMemory)
      << "AdamW, vectors";
  EXPECT_EQ(FitOf(AnchorsOf({0.30, 0.33, 0.32, 0.31})).Limit(large), MemoryLevel::kCore)
      << "coding, scalar";
  EXPECT_EQ(FitOf(AnchorsOf({8.0, 7.5, 3.0, 1.0})).Limit(large), MemoryLevel::kMemory)
      << "gather of rows";
}

TEST(LevelModelTest, AFasterClockBringsWhatTheCoreHas) {
  const LevelModel model{{2, 1, 3, 4}, kCaches};
  const double large = 1e12;
  EXPECT_DOUBLE_EQ(model.Seconds(large), 10);
  EXPECT_DOUBLE_EQ(model.WithClock(large, 2), 10 / 8.5);
  EXPECT_DOUBLE_EQ(model.WithClock(kKiB, 2), 2);
  // At that clock the core and its caches have a tenth of the time.
  const double stops = model.ClockStopsPaying(large);
  EXPECT_NEAR(3 / stops / (3 / stops + 7), 0.1, 1e-12);
  EXPECT_EQ(model.ClockStopsPaying(kKiB), std::numeric_limits<double>::infinity());
  EXPECT_EQ((LevelModel{{0, 0, 1, 1}, kCaches}).ClockStopsPaying(large), 0);
}

TEST(LevelModelTest, MoreChannelsShortenTransfersAndNoWaits) {
  LevelModel model{{2, 1, 3, 4}, kCaches};
  EXPECT_DOUBLE_EQ(model.WithBandwidth(1e12, 2), 1) << "it waits for single accesses";
  model.transfer_term = 2;
  EXPECT_DOUBLE_EQ(model.WithBandwidth(1e12, 2), 10 / 9.0);
  EXPECT_DOUBLE_EQ(model.WithBandwidth(kKiB, 2), 1);
  model.transfer_term = 10;
  EXPECT_DOUBLE_EQ(model.WithBandwidth(1e12, 2), 10 / 6.0) << "the rest was hidden";
}

// AdamW with vectors on a processor where one thread takes all the bandwidth that two get: in
// caches the core needs more than half of the time that it takes beyond them.
TEST(LevelModelTest, MemoryThatIsBusyAllTheTimeIsTheLimit) {
  LevelModel model = FitOf(AnchorsOf({3.21, 3.1, 2.4, 1.94}));
  const double large = 1070 * kMiB;
  model.transfer_term = 28 / 57e9;
  EXPECT_EQ(model.Limit(large), MemoryLevel::kMemory);
  EXPECT_LE(model.WithClock(large, 2), 1.05);
  EXPECT_LE(model.ClockStopsPaying(large), 1.2);
  EXPECT_GE(model.WithBandwidth(large, 2), 1.5);
  EXPECT_EQ(model.Limit(64 * kKiB), MemoryLevel::kCore) << "none of it is moved there";
  EXPECT_DOUBLE_EQ(model.WithClock(64 * kKiB, 2), 2);
  // One element at a time keeps memory busy for less than a fifth of the time.
  LevelModel scalar = FitOf(AnchorsOf({0.375, 0.375, 0.373, 0.371}));
  scalar.transfer_term = model.transfer_term;
  EXPECT_EQ(scalar.Limit(large), MemoryLevel::kCore);
  EXPECT_GE(scalar.WithClock(large, 2), 1.9);
  EXPECT_NEAR(scalar.ClockStopsPaying(large), 57e9 / 28 / 0.371e9, 0.5);
}

TEST(LevelModelTest, FewerCachesAndNone) {
  const LevelModel truth{{1e-10, 0, 0, 4e-10}, {1 * kMiB}};
  const auto one = FitLevels(SamplesOf(truth), std::vector<double>{1 * kMiB});
  ASSERT_TRUE(one.ok());
  EXPECT_NEAR(one->Seconds(64 * kMiB), truth.Seconds(64 * kMiB), 1e-12);
  const auto none = FitLevels({{{1e3, 2.0}, {1e9, 2.0}}}, {});
  ASSERT_TRUE(none.ok());
  EXPECT_DOUBLE_EQ(none->Seconds(1e6), 2);
  EXPECT_EQ(none->Limit(1e6), MemoryLevel::kCore);
}

TEST(LevelModelTest, RefusesWhatNoMachineDoes) {
  const double bad[] = {0, -1, std::numeric_limits<double>::infinity(), std::nan("")};
  EXPECT_FALSE(FitLevels({}, kCaches).ok());
  for (const double value : bad) {
    EXPECT_FALSE(FitLevels({{{value, 1}}}, kCaches).ok()) << value;
    EXPECT_FALSE(FitLevels({{{1e6, value}}}, kCaches).ok()) << value;
    EXPECT_FALSE(FitLevels({{{1e6, 1}}}, std::vector<double>{value}).ok()) << value;
  }
  EXPECT_FALSE(FitLevels({{{1e6, 1}}}, std::vector<double>{1, 2, 3, 4}).ok());
}

}  // namespace
}  // namespace longhaul::plan

#include "coordinator/outer/weighted_mean.h"

#include <list>
#include <memory>
#include <vector>

#include "common/layout/fragment_layout.h"
#include "gtest/gtest.h"

namespace longhaul {
namespace {

class WeightedMeanTest : public testing::Test {
 protected:
  // Adds values of one contribution at an offset, coded in fp32.
  void Add(float share, int64_t offset, const std::vector<float>& values, int contribution = 0) {
    auto& payload = payloads_.emplace_back(codec_->PayloadBytes(values.size()));
    ASSERT_TRUE(codec_->Encode({values}, {}, absl::MakeSpan(payload)).ok());
    mean_.Add(*codec_, share, offset, {static_cast<int64_t>(values.size()), 0, payload},
              contribution);
  }
  std::vector<float> Mean(int64_t first, int64_t count) {
    std::vector<float> out(count, 42.0f);
    EXPECT_TRUE(mean_.Mean(first, absl::MakeSpan(out)).ok());
    return out;
  }

  const std::unique_ptr<Codec> codec_ = *MakeCodec({.kind = CodecKind::kFp32});
  std::list<std::vector<uint8_t>> payloads_;
  WeightedMean mean_;
};

TEST_F(WeightedMeanTest, OneContributionIsItself) {
  mean_.Reset(3);
  Add(1, 0, {0.1f, -0.3f, 7.0f});
  EXPECT_EQ(Mean(0, 3), (std::vector<float>{0.1f, -0.3f, 7.0f}));
}

TEST_F(WeightedMeanTest, AddsTheWeighedContributionsInOrder) {
  EXPECT_EQ(SumWeights({1, 3}), 4);
  mean_.Reset(2);
  Add(0.25f, 0, {4, 0.1f});
  Add(0.75f, 0, {8, 0.2f});
  const std::vector<float> result = Mean(0, 2);
  EXPECT_EQ(result[0], 7.0f);
  volatile float first = 0.25f * 0.1f, second = 0.75f * 0.2f;
  EXPECT_EQ(result[1], first + second);
}

TEST_F(WeightedMeanTest, DependsNeitherOnWhereRanksCutNorOnTheRuns) {
  std::vector<float> a(512), b(512);
  for (int i = 0; i < 512; ++i) a[i] = 1.0f / (i + 1), b[i] = 0.7f * i;
  mean_.Reset(512);
  Add(0.3f, 0, a);
  Add(0.7f, 0, b);
  const std::vector<float> expected = Mean(0, 512);
  mean_.Reset(512);
  Add(0.3f, 0, {a.begin(), a.begin() + 128});
  Add(0.3f, 128, {a.begin() + 128, a.end()});
  Add(0.7f, 0, {b.begin(), b.begin() + 384});
  Add(0.7f, 384, {b.begin() + 384, b.end()});
  EXPECT_EQ(Mean(0, 512), expected);
  EXPECT_EQ(Mean(256, 256), std::vector<float>(expected.begin() + 256, expected.end()));
  EXPECT_EQ(Mean(128, 128), std::vector<float>(expected.begin() + 128, expected.begin() + 256));
}

TEST_F(WeightedMeanTest, ResetForgets) {
  mean_.Reset(kTileElements);
  Add(1, 0, std::vector<float>(kTileElements, 3.0f));
  mean_.Reset(1);
  Add(1, 0, {2});
  EXPECT_EQ(Mean(0, 1), std::vector<float>{2.0f});
}

TEST_F(WeightedMeanTest, RefusesAPayloadOfTheWrongSize) {
  mean_.Reset(128);
  const std::vector<uint8_t> payload(10);
  mean_.Add(*codec_, 1, 0, {128, 0, payload}, 0);
  std::vector<float> out(128);
  EXPECT_FALSE(mean_.Mean(0, absl::MakeSpan(out)).ok());
}

TEST_F(WeightedMeanTest, EnergiesAreThoseOfWholeContributions) {
  const std::vector<float> ones(128, 1.0f), twos(128, 2.0f);
  mean_.Reset(256);
  // The first contribution has two segments; the second covers only the second half.
  Add(0.5f, 0, ones, 0);
  Add(0.5f, 128, ones, 0);
  Add(0.5f, 128, twos, 1);
  std::vector<float> scratch(256);
  EXPECT_EQ(*mean_.Energies(0, absl::MakeSpan(scratch)), (std::vector<double>{64, 128}));
  EXPECT_EQ(*mean_.Energies(0, absl::MakeSpan(scratch).first(128)), (std::vector<double>{32, 0}));
}

}  // namespace
}  // namespace longhaul

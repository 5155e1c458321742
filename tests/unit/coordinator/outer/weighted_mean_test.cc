#include "coordinator/outer/weighted_mean.h"

#include <memory>
#include <vector>

#include "common/layout/fragment_layout.h"
#include "gtest/gtest.h"

namespace longhaul {
namespace {

class WeightedMeanTest : public testing::Test {
 protected:
  // Adds values of one contribution at an offset, coded fp32.
  void Add(float weight, int64_t offset, const std::vector<float>& values) {
    std::vector<uint8_t> payload(codec_->PayloadBytes(values.size()));
    const auto encoded = codec_->Encode(values, absl::MakeSpan(payload));
    ASSERT_TRUE(encoded.ok());
    const int64_t elements = values.size();
    ASSERT_TRUE(
        mean_.Add(*codec_, weight, {offset, elements, encoded->base_exponent, payload}).ok());
  }

  const std::unique_ptr<Codec> codec_ = *MakeCodec({.kind = CodecKind::kFp32});
  WeightedMean mean_;
};

TEST_F(WeightedMeanTest, OneContributionIsItself) {
  mean_.Reset(3);
  Add(1, 0, {0.1f, -0.3f, 7.0f});
  EXPECT_EQ(mean_.Finish(1), absl::MakeConstSpan({0.1f, -0.3f, 7.0f}));
}

TEST_F(WeightedMeanTest, WeighsAndDividesOnce) {
  mean_.Reset(2);
  Add(1, 0, {4, 0.1f});
  Add(3, 0, {8, 0.2f});
  const absl::Span<const float> result = mean_.Finish(SumWeights({1, 3}));
  EXPECT_EQ(result[0], 7.0f);
  volatile float product = 3 * 0.2f;
  EXPECT_EQ(result[1], (0.1f + product) / 4.0f);
}

TEST_F(WeightedMeanTest, DoesNotDependOnWhereRanksCut) {
  std::vector<float> a(512), b(512);
  for (int i = 0; i < 512; ++i) a[i] = 1.0f / (i + 1), b[i] = 0.7f * i;
  mean_.Reset(512);
  Add(2, 0, a);
  Add(5, 0, b);
  const absl::Span<const float> whole = mean_.Finish(7);
  const std::vector<float> expected(whole.begin(), whole.end());
  mean_.Reset(512);
  Add(2, 0, {a.begin(), a.begin() + 128});
  Add(2, 128, {a.begin() + 128, a.end()});
  Add(5, 0, {b.begin(), b.begin() + 384});
  Add(5, 384, {b.begin() + 384, b.end()});
  EXPECT_EQ(mean_.Finish(7), absl::MakeConstSpan(expected));
}

TEST_F(WeightedMeanTest, ResetForgets) {
  mean_.Reset(kTileElements);
  Add(1, 0, std::vector<float>(kTileElements, 3.0f));
  mean_.Reset(1);
  Add(1, 0, {2});
  EXPECT_EQ(mean_.Finish(1), absl::MakeConstSpan({2.0f}));
}

TEST_F(WeightedMeanTest, RefusesAPayloadOfTheWrongSize) {
  mean_.Reset(128);
  const std::vector<uint8_t> payload(10);
  EXPECT_FALSE(mean_.Add(*codec_, 1, {0, 128, 0, payload}).ok());
}

}  // namespace
}  // namespace longhaul

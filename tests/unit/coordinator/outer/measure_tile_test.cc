#include "coordinator/outer/measure_tile.h"

#include <cmath>
#include <memory>
#include <vector>

#include "common/base/random.h"
#include "common/codec/codec.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace longhaul {
namespace {

// Contributions in fp32, each with the share 1.
TileMeasure MeasureAll(const std::vector<std::vector<float>>& contributions) {
  const std::unique_ptr<Codec> codec = *MakeCodec({.kind = CodecKind::kFp32});
  WeightedMean mean;
  const auto elements = static_cast<int64_t>(contributions[0].size());
  mean.Reset(elements);
  std::vector<std::vector<uint8_t>> payloads;
  payloads.reserve(contributions.size());
  for (size_t m = 0; m < contributions.size(); ++m) {
    std::vector<uint8_t>& payload = payloads.emplace_back(codec->PayloadBytes(elements));
    const auto coded =
        codec->Encode({absl::MakeConstSpan(contributions[m])}, {}, absl::MakeSpan(payload));
    mean.Add(*codec, 1, 0,
             {static_cast<int32_t>(elements), coded->base_exponent, absl::MakeConstSpan(payload)},
             static_cast<int>(m));
  }
  return *MeasureTile(mean);
}

std::vector<float> DrawnAt(int64_t elements, uint64_t seed) {
  Random random(seed);
  std::vector<float> values(elements);
  for (float& value : values) value = static_cast<float>(random.Uniform() - 0.5);
  return values;
}

double InnerOf(const std::vector<float>& a, const std::vector<float>& b, size_t count) {
  double sum = 0;
  for (size_t i = 0; i < std::min(count, a.size()); ++i) sum += double{a[i]} * b[i];
  return sum;
}
double CosineOf(const std::vector<float>& a, const std::vector<float>& b) {
  const size_t all = a.size();
  return InnerOf(a, b, all) / std::sqrt(InnerOf(a, a, all) * InnerOf(b, b, all));
}

TEST(MeasureTileTest, NormsAreThoseOfAllElements) {
  for (const int64_t elements : {1, 127, 1024, 5000, 65536}) {
    std::vector<float> one = DrawnAt(elements, 1), other = DrawnAt(elements, 2);
    other.back() = 1e6f;
    const TileMeasure measure = MeasureAll({one, other});
    ASSERT_EQ(measure.energies.size(), 2u) << elements;
    EXPECT_NEAR(measure.energies[0] / InnerOf(one, one, elements), 1, 1e-12) << elements;
    EXPECT_NEAR(measure.energies[1] / InnerOf(other, other, elements), 1, 1e-12) << elements;
  }
}

TEST(MeasureTileTest, CosinesAreMeansOverPairs) {
  const std::vector<float> base = DrawnAt(5000, 3);
  std::vector<std::vector<float>> u(3, base);
  for (size_t m = 0; m < u.size(); ++m) {
    const std::vector<float> noise = DrawnAt(5000, 10 + m);
    for (size_t i = 0; i < noise.size(); ++i) u[m][i] += noise[i];
  }
  for (float& value : u[1]) value = -value;
  const TileMeasure measure = MeasureAll(u);
  const double ab = CosineOf(u[0], u[1]), ac = CosineOf(u[0], u[2]), bc = CosineOf(u[1], u[2]);
  EXPECT_LT(ab, -0.3);
  // Their norms are about equal, so weights by norms change little.
  EXPECT_NEAR(measure.Cosine(0), (ab + ac) / 2, 0.02);
  EXPECT_NEAR(measure.Cosine(1), (ab + bc) / 2, 0.02);
  EXPECT_NEAR(measure.CosineOfOthers(1), ac, 1e-6);
  EXPECT_NEAR(measure.CosineOfOthers(0), bc, 1e-6);
}

TEST(MeasureTileTest, ASampleOfAWholeTileIsFromAllOfIt) {
  // They agree in the second half alone.
  std::vector<float> one = DrawnAt(65536, 1), other = DrawnAt(65536, 2);
  std::copy(one.begin() + 32768, one.end(), other.begin() + 32768);
  EXPECT_NEAR(MeasureAll({one, other}).Cosine(0), 0.5, 0.05);
}

TEST(MeasureTileTest, ZerosHaveNoDirection) {
  const TileMeasure measure = MeasureAll({std::vector<float>(300, 0.0f), DrawnAt(300, 1)});
  EXPECT_EQ(measure.Cosine(0), 0);
  EXPECT_EQ(measure.Cosine(1), 0);
  EXPECT_EQ(measure.CosineOfOthers(1), 0);
}

TEST(MeasureTileTest, TilesAddUp) {
  const std::vector<float> one = DrawnAt(2000, 1), other = DrawnAt(2000, 2);
  TileMeasure sum = MeasureAll({one, other});
  const double energy = sum.energies[1];
  sum.Add(MeasureAll({one, other}));
  EXPECT_DOUBLE_EQ(sum.energies[1], 2 * energy);
  EXPECT_NEAR(sum.Cosine(0), MeasureAll({one, other}).Cosine(0), 1e-12);
}

}  // namespace
}  // namespace longhaul

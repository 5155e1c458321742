#include "coordinator/outer/agreement.h"

#include "gtest/gtest.h"

namespace longhaul {
namespace {

TEST(AgreementTest, IsTheCosineOfTwo) {
  // u = (3, 0), v = (0, 4); then v = (5, 0); then v = (-3, 0).
  EXPECT_DOUBLE_EQ(*MeanCosine({25, {9, 16}}), 0);
  EXPECT_DOUBLE_EQ(*MeanCosine({64, {9, 25}}), 1);
  EXPECT_DOUBLE_EQ(*MeanCosine({0, {9, 9}}), -1);
}

TEST(AgreementTest, IsTheMeanOverPairs) {
  // Unit vectors x, x, y: one pair of three agrees.
  EXPECT_DOUBLE_EQ(*MeanCosine({5, {1, 1, 1}}), 1.0 / 3);
}

TEST(AgreementTest, OneContributionHasNoCosine) {
  EXPECT_FALSE(MeanCosine({4, {4}}).has_value());
  EXPECT_FALSE(MeanCosine({0, {0, 0}}).has_value());
  EXPECT_FALSE(MeanCosine({4, {4, 0}}).has_value());
}

TEST(AgreementTest, SamplesOfTilesAddUp) {
  AgreementSample sum;
  sum.Add({1, {2, 3}});
  sum.Add({10, {20, 30}});
  EXPECT_EQ(sum.mean_energy, 11);
  EXPECT_EQ(sum.energies, (std::vector<double>{22, 33}));
}

}  // namespace
}  // namespace longhaul

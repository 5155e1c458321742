#include "coordinator/job/outer_guard.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace longhaul {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class OuterGuardTest : public testing::Test {
 protected:
  // Judges one round after another.
  std::vector<size_t> Judge(const std::vector<double>& norms, size_t needed = 1) {
    std::vector<OuterMeasure> measures;
    for (const double norm : norms) measures.push_back({.norm = norm});
    return Judge(measures, needed);
  }
  std::vector<size_t> Judge(const std::vector<OuterMeasure>& measures, size_t needed = 1) {
    verdict_ = JudgeOuter(options_, verdict_.usual, measures, needed);
    std::vector<size_t> left_out;
    for (size_t i = 0; i < measures.size(); ++i)
      if (verdict_.LeavesOut(i)) left_out.push_back(i);
    return left_out;
  }
  void Usual(const std::vector<double>& norms) {
    for (int i = 0; i < options_.rounds; ++i) ASSERT_THAT(Judge(norms), IsEmpty());
  }

  OuterGuardOptions options_{.on = true, .rounds = 3};
  OuterVerdict verdict_;
};

TEST_F(OuterGuardTest, TheFirstRoundsAreNotJudged) {
  for (int round = 0; round < options_.rounds; ++round)
    EXPECT_THAT(Judge(std::vector<double>{1, 5000}), IsEmpty()) << round;
  EXPECT_THAT(Judge(std::vector<double>{1, 5000}), ElementsAre(1));
  EXPECT_THAT(verdict_.far[0].why, HasSubstr("5000 times the usual 1"));
}

TEST_F(OuterGuardTest, ItIsFarOnlyIfItIsLargerThanUsualAndThanTheOthers) {
  Usual({1, 2, 3});
  EXPECT_THAT(Judge({1, 2, 20}), IsEmpty());
  EXPECT_THAT(Judge({1, 2, 21}), ElementsAre(2));
  EXPECT_THAT(Judge({100, 200, 300}), IsEmpty()) << "all grew";
  EXPECT_THAT(Judge({0.001, 0.002, 3}), IsEmpty()) << "the others did fewer steps";
  EXPECT_THAT(Judge({0, 0, 3}), IsEmpty());
  EXPECT_THAT(Judge(std::vector<double>{3000}), IsEmpty()) << "there are no others";
}

TEST_F(OuterGuardTest, OneThatIsAlwaysFarDoesNotBecomeUsual) {
  Usual({1, 1, 1});
  for (int round = 0; round < 100; ++round)
    ASSERT_THAT(Judge({1, 1000, 1}), ElementsAre(1)) << round;
  EXPECT_LE(verdict_.usual.norms.size(), 16u);
}

TEST_F(OuterGuardTest, WhatIsUsualFollowsTheOthers) {
  Usual({1, 1, 1});
  for (int round = 0; round < 20; ++round) Judge({50, 50, 50});
  EXPECT_THAT(Judge({50, 400, 50}), IsEmpty());
  EXPECT_THAT(Judge({50, 600, 50}), ElementsAre(1));
}

TEST_F(OuterGuardTest, HalfOfThemAndTheQuorumCount) {
  Usual({1, 1, 1, 1});
  EXPECT_THAT(Judge({1, 99, 1, 99}), ElementsAre(1, 3));
  EXPECT_THAT(Judge({1, 99, 1, 99}, 3), IsEmpty());
  EXPECT_TRUE(verdict_.overruled);
  EXPECT_EQ(verdict_.far.size(), 2u);
  EXPECT_THAT(Judge({1, 99, 1, 1}, 3), ElementsAre(1));
  EXPECT_FALSE(verdict_.overruled);
}

// Three of which the second points the other way.
std::vector<OuterMeasure> Opposed(double cosine) {
  return {{1, 0, -cosine}, {1, -cosine, cosine}, {1, 0, -cosine}};
}

TEST_F(OuterGuardTest, OneThatPointsAgainstTheOthersIsFar) {
  const std::vector<OuterMeasure> agree(3, {1, 0.3, 0.3});
  for (int round = 0; round < options_.rounds; ++round) Judge(agree);
  for (int round = 0; round < 40; ++round)
    ASSERT_THAT(Judge(Opposed(0.3)), ElementsAre(1)) << round;
  EXPECT_THAT(verdict_.far[0].why, HasSubstr("-0.30"));
  options_.cosine = -1;
  EXPECT_THAT(Judge(Opposed(0.3)), IsEmpty());
}

TEST_F(OuterGuardTest, WithoutAgreementNoDirectionIsWrong) {
  const std::vector<OuterMeasure> apart(3, {1, 0.03, 0.03});
  for (int round = 0; round < options_.rounds; ++round) Judge(apart);
  EXPECT_THAT(Judge(Opposed(0.3)), IsEmpty()) << "usually they have nothing in common";
}

TEST_F(OuterGuardTest, NoDirectionIsWrongWhereTheOthersAgreeLessThanUsual) {
  const std::vector<OuterMeasure> agree(3, {1, 0.5, 0.5});
  for (int round = 0; round < options_.rounds; ++round) Judge(agree);
  EXPECT_THAT(Judge(std::vector<OuterMeasure>{{1, 0.1, -0.4}, {1, -0.4, 0.2}, {1, 0.1, -0.4}}),
              IsEmpty());
  EXPECT_THAT(Judge(std::vector<OuterMeasure>{{1, 0.1, -0.2}, {1, -0.2, 0.5}, {1, 0.1, -0.2}}),
              IsEmpty());
  EXPECT_THAT(Judge(std::vector<OuterMeasure>{{1, 0.1, -0.4}, {1, -0.4, 0.3}, {1, 0.1, -0.4}}),
              ElementsAre(1));
}

TEST_F(OuterGuardTest, OfTwoNoneSaysWhichDirectionIsWrong) {
  const std::vector<OuterMeasure> agree(3, {1, 0.3, 0.3});
  for (int round = 0; round < options_.rounds; ++round) Judge(agree);
  EXPECT_THAT(Judge(std::vector<OuterMeasure>{{1, -0.9, 0.9}, {1, -0.9, 0.9}}), IsEmpty());
}

}  // namespace
}  // namespace longhaul

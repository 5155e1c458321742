#include "common/base/nearest_name.h"

#include "gtest/gtest.h"

namespace longhaul {
namespace {

const std::vector<std::string> kNames = {"tau", "h", "alpha", "fragments"};

TEST(NearestNameTest, FindsNamesOneEditAway) {
  EXPECT_EQ(NearestName("tua", kNames), "tau");
  EXPECT_EQ(NearestName("alhpa", kNames), "alpha");
  EXPECT_EQ(NearestName("Alpha", kNames), "alpha");
  EXPECT_EQ(NearestName("fragment", kNames), "fragments");
  EXPECT_EQ(NearestName("frgmnts", kNames), "fragments");
}

TEST(NearestNameTest, FindsNothingFarAway) {
  EXPECT_EQ(NearestName("codec", kNames), "");
  EXPECT_EQ(NearestName("", kNames), "");
  EXPECT_EQ(NearestName(std::string(100000, 'a'), kNames), "");
}

TEST(NearestNameTest, AnotherLetterInAShortNameMakesAnotherName) {
  EXPECT_EQ(NearestName("gpu", {"cpu", "cuda"}), "");
  EXPECT_EQ(NearestName("8B", {"35m", "150m", "1b", "7b"}), "");
  EXPECT_EQ(NearestName("7B", {"35m", "150m", "1b", "7b"}), "7b");
  EXPECT_EQ(NearestName("cup", {"cpu", "cuda"}), "cpu");
  EXPECT_EQ(NearestName("hh", kNames), "h");
  EXPECT_EQ(NearestName("int9", {"int8", "fp32"}), "int8");
}

TEST(NearestNameTest, HintListsTheNamesIfNoneIsNear) {
  EXPECT_EQ(NearestNameHint("tua", kNames), "did you mean 'tau'?");
  EXPECT_EQ(NearestNameHint("codec", kNames), "one of tau, h, alpha, fragments");
  EXPECT_EQ(NearestNameHint("codec", {}), "");
}

}  // namespace
}  // namespace longhaul

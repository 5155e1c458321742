#include "worker/collective/parts.h"

#include <limits>

#include "gtest/gtest.h"

namespace longhaul {
namespace {

TEST(PartsTest, ContiguousPartsFollowEachOther) {
  std::vector<Part> parts;
  ASSERT_TRUE(ContiguousParts({3, 0, 5}, &parts).ok());
  EXPECT_EQ(parts, (std::vector<Part>{{0, 3}, {3, 0}, {3, 5}}));
}

TEST(PartsTest, ContiguousPartsRefuseNegativeSizesAndOverflow) {
  std::vector<Part> parts;
  EXPECT_TRUE(absl::IsInvalidArgument(ContiguousParts({3, -1}, &parts)));
  EXPECT_TRUE(
      absl::IsInvalidArgument(ContiguousParts({std::numeric_limits<int64_t>::max(), 1}, &parts)));
}

TEST(PartsTest, EvenPartsDifferByOneAtMost) {
  EXPECT_EQ(EvenParts(10, 4), (std::vector<Part>{{0, 3}, {3, 3}, {6, 2}, {8, 2}}));
  EXPECT_EQ(EvenParts(1, 3), (std::vector<Part>{{0, 1}, {1, 0}, {1, 0}}));
}

TEST(PartsTest, ValidateAcceptsPartsUpToTheEndAndRefusesThosePast) {
  EXPECT_TRUE(ValidateParts({{0, 4}, {4, 0}}, 2, 4).ok());
  EXPECT_FALSE(ValidateParts({{0, 4}}, 2, 4).ok());
  EXPECT_FALSE(ValidateParts({{1, 4}}, 1, 4).ok());
  EXPECT_FALSE(ValidateParts({{-1, 1}}, 1, 4).ok());
  EXPECT_FALSE(ValidateParts({{5, 0}}, 1, 4).ok());
  EXPECT_FALSE(ValidateParts({{1, std::numeric_limits<int64_t>::max()}}, 1, 4).ok());
}

}  // namespace
}  // namespace longhaul

#include "common/blocks/float_array.h"

#include <algorithm>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace longhaul {
namespace {

using ::testing::Each;
using ::testing::ElementsAreArray;

TEST(FloatArrayTest, BeginsAsZerosAndIsWritableAtEverySize) {
  for (const int64_t elements : {0, 1, 1000, (1 << 18) - 1, 1 << 18, (3 << 20) + 7}) {
    FloatArray array(elements);
    ASSERT_EQ(array.size(), elements);
    EXPECT_TRUE(std::all_of(array.begin(), array.end(), [](float x) { return x == 0; }));
    std::fill(array.begin(), array.end(), 1.0f);
    array.Clear();
    ASSERT_EQ(array.size(), elements);
    EXPECT_TRUE(std::all_of(array.begin(), array.end(), [](float x) { return x == 0; }));
    std::fill(array.begin(), array.end(), 1.0f);
  }
}

TEST(FloatArrayTest, IsAValue) {
  const FloatArray array({1, 2, 3});
  FloatArray copy = array;
  copy[0] = 7;
  EXPECT_THAT(array, ElementsAreArray({1, 2, 3}));
  EXPECT_THAT(copy, ElementsAreArray({7, 2, 3}));
  FloatArray moved = std::move(copy);
  EXPECT_EQ(copy.size(), 0);  // NOLINT: the state after a move is part of the contract.
  EXPECT_THAT(moved, ElementsAreArray({7, 2, 3}));
  moved = FloatArray(1 << 20);
  EXPECT_THAT(moved, Each(0));
}

}  // namespace
}  // namespace longhaul

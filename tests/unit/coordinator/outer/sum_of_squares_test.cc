#include "coordinator/outer/sum_of_squares.h"

#include <vector>

#include "gtest/gtest.h"

namespace longhaul {
namespace {

TEST(SumOfSquaresTest, CountsEveryElementOnce) {
  for (const size_t size : {0u, 1u, 15u, 16u, 17u, 31u, 32u, 33u, 1000u}) {
    std::vector<float> values;
    double expected = 0;
    for (size_t i = 0; i < size; ++i) {
      values.push_back(static_cast<float>(i + 1));
      expected += static_cast<double>(i + 1) * static_cast<double>(i + 1);
    }
    EXPECT_EQ(SumOfSquares(values), expected) << size;
  }
}

TEST(SumOfSquaresTest, DoesNotOverflowFloat) {
  const std::vector<float> values(3, 1e30f);
  EXPECT_NEAR(SumOfSquares(values), 3e60, 1e54);
}

}  // namespace
}  // namespace longhaul

#include "worker/optim/clipping.h"

#include <gtest/gtest.h>

namespace longhaul {
namespace {

TEST(ClippingTest, ScalesLargeGradientsDownToTheNorm) {
  EXPECT_NEAR(ClipScale(4, 1) * 4, 1, 1e-6);
  EXPECT_NEAR(ClipScale(4, 2) * 4, 2, 1e-6);
}

TEST(ClippingTest, LeavesSmallGradientsAlone) {
  EXPECT_EQ(ClipScale(0.5, 1), 1);
  EXPECT_EQ(ClipScale(0, 1), 1);
}

TEST(ClippingTest, NegativeMeansNone) { EXPECT_EQ(ClipScale(1e9, -1), 1); }

}  // namespace
}  // namespace longhaul

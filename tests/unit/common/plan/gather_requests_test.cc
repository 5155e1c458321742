#include "common/plan/gather_requests.h"

#include <gtest/gtest.h>

namespace longhaul::plan {
namespace {

// Rows of four sizes of public data sets, and one element more than a multiple of a line.
TEST(GatherRequestsTest, CountsLinesOfWarps) {
  EXPECT_NEAR(GatherRequests(25, false), 1.75, 1e-12);
  EXPECT_NEAR(GatherRequests(100, false), 6.625, 1e-12);
  EXPECT_NEAR(GatherRequests(128, false), 4, 1e-12);
  EXPECT_NEAR(GatherRequests(129, false), 8.875, 1e-12);
  EXPECT_NEAR(GatherRequests(25, true), 1.75, 1e-12);
  EXPECT_NEAR(GatherRequests(100, true), 4, 1e-12);
  EXPECT_NEAR(GatherRequests(128, true), 4, 1e-12);
  EXPECT_NEAR(GatherRequests(129, true), 5, 1e-12);
}

TEST(GatherRequestsTest, AlignedAccessesNeverTouchMore) {
  for (int dim = 1; dim <= 700; ++dim) {
    EXPECT_LE(GatherRequests(dim, true), GatherRequests(dim, false)) << dim;
    EXPECT_GE(GatherRequests(dim, true), dim / 32.0) << dim;
  }
}

}  // namespace
}  // namespace longhaul::plan

#include "coordinator/job/pools_loss.h"

#include <gtest/gtest.h>

namespace longhaul {
namespace {

TEST(PoolsLossTest, IsTheMeanOverTheExamplesOfAllPools) {
  PoolsLoss loss;
  EXPECT_EQ(loss.Add({10, false}, 2, 100), 2);
  EXPECT_EQ(loss.Add({10, false}, 6, 300), 5);
  // A later evaluation begins with its first report; one that is late changes nothing.
  EXPECT_EQ(loss.Add({10, true}, 3, 10), 3);
  EXPECT_EQ(loss.Add({10, false}, 9, 10), 9);
  EXPECT_EQ(loss.Add({10, true}, 5, 10), 4);
  EXPECT_EQ(loss.Add({20, false}, 1, 0), 1) << "a pool that says 0 counts as one";
}

}  // namespace
}  // namespace longhaul

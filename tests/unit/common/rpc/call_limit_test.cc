#include "common/rpc/call_limit.h"

#include <gtest/gtest.h>

namespace longhaul {
namespace {

TEST(CallLimitTest, AsManyCallsAsThereIsRoomForAreLetIn) {
  CallLimit limit(2);
  EXPECT_TRUE(limit.Enter());
  EXPECT_TRUE(limit.Enter());
  EXPECT_FALSE(limit.Enter());
  EXPECT_EQ(limit.held(), 2);
  limit.Leave();
  EXPECT_TRUE(limit.Enter());
  EXPECT_FALSE(limit.Enter());
  EXPECT_EQ(limit.came(), 5);
}

TEST(CallLimitTest, StrangersLeaveRoomForThoseWhoAreKnown) {
  CallLimit limit(8);
  EXPECT_TRUE(limit.Enter(/*known=*/false));
  EXPECT_TRUE(limit.Enter(/*known=*/false));
  EXPECT_FALSE(limit.Enter(/*known=*/false));
  for (int i = 2; i < 8; ++i) EXPECT_TRUE(limit.Enter(/*known=*/true)) << i;
  EXPECT_FALSE(limit.Enter(/*known=*/true));
}

// It is counted again when the interceptor of the call is destroyed.
TEST(CallLimitTest, ACallLeavesWithItsInterceptor) {
  CallLimit limit(1);
  ASSERT_TRUE(limit.Enter());
  const auto counter = limit.MakeCounter();
  delete counter->CreateServerInterceptor(nullptr);
  EXPECT_EQ(limit.held(), 0);
}

}  // namespace
}  // namespace longhaul

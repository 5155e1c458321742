#include "common/rpc/wire_bytes.h"

#include "gtest/gtest.h"

namespace longhaul {
namespace {

TEST(WireBytesTest, CountsPrefixAndFrames) {
  WireBytes bytes;
  bytes.AddMessage(100, 80);
  EXPECT_EQ(bytes.payload, 80);
  EXPECT_EQ(bytes.total, 100 + 5 + 9);
  // With its prefix it needs a second frame.
  bytes.AddMessage(16384, 16000);
  EXPECT_EQ(bytes.payload, 16080);
  EXPECT_EQ(bytes.total, 114 + 16384 + 5 + 18);
}

TEST(WireBytesTest, Adds) {
  WireBytes sum{.payload = 1, .total = 2};
  sum += {.payload = 10, .total = 20};
  EXPECT_EQ(sum.payload, 11);
  EXPECT_EQ(sum.total, 22);
}

}  // namespace
}  // namespace longhaul

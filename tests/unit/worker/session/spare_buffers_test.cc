#include "worker/session/spare_buffers.h"

#include "gtest/gtest.h"

namespace longhaul::session {
namespace {

TEST(SpareBuffersTest, MemoryIsHandedOn) {
  SpareBuffers buffers;
  std::vector<float> first = buffers.Take(100);
  EXPECT_EQ(first.size(), 100u);
  const float* const memory = first.data();
  buffers.Give(std::move(first));
  const std::vector<float> second = buffers.Take(90);
  EXPECT_EQ(second.size(), 90u);
  EXPECT_EQ(second.data(), memory);
  EXPECT_NE(buffers.Take(90).data(), memory);
}

TEST(SpareBuffersTest, TooSmallMemoryIsLeft) {
  SpareBuffers buffers;
  buffers.Give(std::vector<float>(10));
  EXPECT_EQ(buffers.Take(11).size(), 11u);
  // Memory that was handed on would have grown.
  EXPECT_EQ(buffers.Take(5).capacity(), 10u);
}

TEST(SpareBuffersTest, NothingIsWorthKeeping) {
  SpareBuffers buffers;
  buffers.Give({});
  EXPECT_EQ(buffers.Take(0).size(), 0u);
  EXPECT_EQ(buffers.Take(5), std::vector<float>(5));
}

TEST(SpareBuffersTest, TheLargestAreKept) {
  SpareBuffers buffers;
  std::vector<float> large(300), middle(200), small(100);
  const float* const memory = large.data();
  buffers.Give(std::move(large));
  buffers.Give(std::move(middle));
  buffers.Give(std::move(small));
  EXPECT_EQ(buffers.Take(250).data(), memory);
}

}  // namespace
}  // namespace longhaul::session

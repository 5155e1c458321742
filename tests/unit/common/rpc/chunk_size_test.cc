#include "common/rpc/chunk_size.h"

#include <vector>

#include "gtest/gtest.h"

namespace longhaul {
namespace {

constexpr int64_t kKiB = 1 << 10;

TEST(ChunkSizeTest, IsOneMiBWhileNothingFails) {
  ChunkSize size;
  for (int i = 0; i < 1000; ++i) {
    ASSERT_EQ(size.bytes(), 1024 * kKiB);
    ASSERT_TRUE(size.full());
    size.Passed();
  }
}

TEST(ChunkSizeTest, HalvesDownToTheLeast) {
  ChunkSize size;
  std::vector<int64_t> sizes;
  for (int i = 0; i < 6; ++i) {
    size.Halve();
    sizes.push_back(size.bytes() / kKiB);
  }
  EXPECT_EQ(sizes, std::vector<int64_t>({512, 256, 128, 64, 64, 64}));
}

TEST(ChunkSizeTest, GrowsAgainAndNeverLosesMoreThanHalfOfWhatHasPassed) {
  ChunkSize size;
  for (int i = 0; i < 4; ++i) size.Halve();
  const int64_t first = size.bytes();
  int64_t passed = 0;
  for (int chunks = 0; !size.full(); ++chunks) {
    ASSERT_LT(chunks, 16);
    ASSERT_LE(size.bytes(), std::max(first, passed / 2));
    passed += size.bytes();
    size.Passed();
  }
  EXPECT_EQ(passed, 4 * (64 + 128 + 256 + 512) * kKiB);
}

}  // namespace
}  // namespace longhaul

#include "common/rpc/allocator.h"

#include <vector>

#include "gtest/gtest.h"

namespace longhaul {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kTakesSettings = false;
#else
constexpr bool kTakesSettings = true;
#endif

TEST(AllocatorTest, TakesTheSettingsWhereItCan) {
  EXPECT_TRUE(TuneAllocatorForBulk() || !kTakesSettings);
  EXPECT_EQ(std::vector<char>(1 << 20).size(), size_t{1} << 20);
}

// Every second piece lives on, so that the heap's end does not become free.
TEST(AllocatorTest, MemoryThatWasFreedIsGivenBack) {
  if (!kTakesSettings) GTEST_SKIP() << "sanitizers have an allocator of their own";
  constexpr size_t kPieces = 2000, kPieceBytes = 50'000;
  std::vector<std::vector<char>> kept, freed;
  for (size_t i = 0; i < kPieces; ++i) {
    freed.emplace_back(kPieceBytes, 'x');
    kept.emplace_back(100, 'x');
  }
  EXPECT_FALSE(ReturnFreeMemory(kPieces * kPieceBytes));
  freed.clear();
  EXPECT_TRUE(ReturnFreeMemory(kPieces * kPieceBytes / 2));
  EXPECT_EQ(kept[kPieces / 2][0], 'x');
}

}  // namespace
}  // namespace longhaul

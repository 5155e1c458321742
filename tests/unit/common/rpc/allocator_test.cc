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

}  // namespace
}  // namespace longhaul

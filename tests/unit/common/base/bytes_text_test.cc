#include "common/base/bytes_text.h"

#include <limits>

#include "gtest/gtest.h"

namespace longhaul {
namespace {

TEST(BytesTextTest, HasTheLargestUnitThatIsNotBelowOne) {
  EXPECT_EQ(BytesText(0), "0 B");
  EXPECT_EQ(BytesText(1023), "1023 B");
  EXPECT_EQ(BytesText(1536), "1.5 KiB");
  EXPECT_EQ(BytesText(int64_t{3} << 40), "3.0 TiB");
  EXPECT_EQ(BytesText(std::numeric_limits<int64_t>::max()), "8.0 EiB");
}

}  // namespace
}  // namespace longhaul

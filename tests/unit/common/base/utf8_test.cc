#include "common/base/utf8.h"

#include "gtest/gtest.h"

namespace longhaul {
namespace {

TEST(ClipUtf8Test, LeavesWholeSequences) {
  EXPECT_EQ(ClipUtf8("abc", 3), "abc");
  EXPECT_EQ(ClipUtf8("abc", 2), "ab");
  EXPECT_EQ(ClipUtf8("a\u00e9b", 2), "a");
  EXPECT_EQ(ClipUtf8("a\u00e9b", 3), "a\u00e9");
  EXPECT_EQ(ClipUtf8("\U0001f600", 3), "");
  EXPECT_EQ(ClipUtf8("", 0), "");
}

TEST(ClipUtf8Test, NeedsNoValidText) { EXPECT_EQ(ClipUtf8("\x80\x80\x80", 2), ""); }

}  // namespace
}  // namespace longhaul

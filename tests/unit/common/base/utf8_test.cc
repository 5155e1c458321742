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

TEST(ClipWordsTest, EndsAfterAWord) {
  EXPECT_EQ(ClipWords("one two three", 13), "one two three");
  EXPECT_EQ(ClipWords("one two three", 12), "one two ...");
  EXPECT_EQ(ClipWords("one two three", 11), "one two ...");
  EXPECT_EQ(ClipWords("one two three", 10), "one tw...") << "not less than half of the room";
  // One word is cut, and never inside of a character.
  EXPECT_EQ(ClipWords("/a/path/without/spaces", 12), "/a/path/...");
  EXPECT_EQ(ClipWords("abcdefg\u00e9\u00e9\u00e9", 12), "abcdefg...");
  for (size_t most = 0; most < 13; ++most) {
    EXPECT_LE(ClipWords("one two three", most).size(), most);
  }
}

TEST(Utf8Test, WhatIsNoCharacterIsReplaced) {
  const std::string no = "\xEF\xBF\xBD";
  for (const std::string good :
       {"", "plain", "\x01\n", "\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80 \xF4\x8F\xBF\xBF"})
    EXPECT_EQ(ToUtf8(good), good);
  EXPECT_EQ(ToUtf8("a\xFF"
                   "b"),
            "a" + no + "b");
  EXPECT_EQ(ToUtf8("\xE2\x82"), no + no);
  EXPECT_EQ(ToUtf8("\xE2\x82z\xC3"), no + no + "z" + no);
  // Overlong, a surrogate, behind the last character.
  for (const std::string bad :
       {"\xC0\x80", "\xE0\x9F\xBF", "\xED\xA0\x80", "\xF0\x8F\xBF\xBF", "\xF4\x90\x80\x80"}) {
    std::string replaced;
    for (size_t i = 0; i < bad.size(); ++i) replaced += no;
    EXPECT_EQ(ToUtf8(bad), replaced);
  }
}

}  // namespace
}  // namespace longhaul

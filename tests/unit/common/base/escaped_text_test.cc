#include "common/base/escaped_text.h"

#include "gtest/gtest.h"

namespace longhaul {
namespace {

TEST(EscapedTextTest, CharactersOfAnyScriptStay) {
  for (const char* const text : {"", "plain", "j\u00f6b", "\u4efb\u52a1", "\U0001f600", "a\u00a0b"})
    EXPECT_EQ(EscapedText(text), text);
}

TEST(EscapedTextTest, OutsideOfQuotesTheseStay) {
  EXPECT_EQ(EscapedLine("a\\'\"\nb\u009b"), "a\\'\"\\nb\\xc2\\x9b");
}

TEST(EscapedTextTest, NothingDrivesATerminal) {
  EXPECT_EQ(EscapedText("a\x1b[2J\x7f"), "a\\x1b[2J\\x7f");
  EXPECT_EQ(EscapedText("a\r\n\tb"), "a\\r\\n\\tb");
  // One byte for ESC [; right to left; a byte order mark; a separator of lines.
  EXPECT_EQ(EscapedText("\u009b2J"), "\\xc2\\x9b2J");
  EXPECT_EQ(EscapedText("a\u202eb"), "a\\xe2\\x80\\xaeb");
  EXPECT_EQ(EscapedText("\ufeff"), "\\xef\\xbb\\xbf");
  EXPECT_EQ(EscapedText("\u2028"), "\\xe2\\x80\\xa8");
}

TEST(EscapedTextTest, QuotesAndWhatIsNoUtf8) {
  EXPECT_EQ(EscapedText("it's \"a\\b\""), "it\\'s \\\"a\\\\b\\\"");
  EXPECT_EQ(EscapedText("a\xff"
                        "b\xe2\x82"),
            "a\\xffb\\xe2\\x82");
}

}  // namespace
}  // namespace longhaul

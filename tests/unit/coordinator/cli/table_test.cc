#include "coordinator/cli/table.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "coordinator/cli/text.h"
#include "gtest/gtest.h"

namespace longhaul::cli {
namespace {

const std::vector<Column> kJobs = {
    {"NAME", CellFit::kName}, {"STATE"}, {"EVAL LOSS"}, {"ID", CellFit::kId}};

int WidestOf(const std::string& text) {
  int widest = 0;
  for (const absl::string_view line : absl::StrSplit(text, '\n'))
    widest = std::max(widest, ColumnsOf(line));
  return widest;
}

TEST(TableTest, AlignsAndHidesControlCharacters) {
  EXPECT_EQ(FittedTable({{"NAME"}, {"STATE"}}, {{"quickstart", "a\nb"}}),
            "NAME        STATE\nquickstart  a?b\n");
}

TEST(TableTest, AnyWidthIsWhatATableThatFitsHas) {
  const std::vector<std::vector<std::string>> rows = {
      {std::string(63, 'n'), "RUNNING", "2.3141", "20260131-120000-0a1b2c"}, {"a\nb", "", "-", ""}};
  const std::string text = absl::StrCat(
      "NAME", std::string(61, ' '), "STATE    EVAL LOSS  ID\n", std::string(63, 'n'),
      "  RUNNING  2.3141     20260131-120000-0a1b2c\n", "a?b", std::string(71, ' '), "-\n");
  EXPECT_EQ(FittedTable(kJobs, rows), text);
  EXPECT_EQ(FittedTable(kJobs, rows, {.columns = 200}), text);
  EXPECT_EQ(FittedTable(kJobs, {}), "NAME  STATE  EVAL LOSS  ID\n");
}

TEST(TableTest, HeadingsTakeTwoLinesBeforeACellIsShortened) {
  EXPECT_EQ(FittedTable(kJobs, {{"quickstart", "RUNNING", "2.3141", "20260131-120000-0a1b2c"}},
                        {.columns = 53}),
            "                     EVAL\n"
            "NAME        STATE    LOSS    ID\n"
            "quickstart  RUNNING  2.3141  20260131-120000-0a1b2c\n");
}

TEST(TableTest, NamesAreShortenedBeforeIds) {
  const std::vector<std::vector<std::string>> rows = {
      {"a-long-name-of-a-job", "RUNNING", "2.3141", "20260131-120000-0a1b2c"}};
  EXPECT_EQ(FittedTable(kJobs, rows, {.columns = 51}),
            "                      EVAL\n"
            "NAME          STATE   LOSS   ID\n"
            "a-long-nam... RUNNING 2.3141 20260131-120000-0a1b2c\n");
}

TEST(TableTest, NothingIsWiderThanTheTerminalDownToParagraphs) {
  const std::vector<std::vector<std::string>> rows = {
      {std::string(63, 'n'), "QUARANTINED", "2.3141", "20260131-120000-0a1b2c"},
      {"Zürich", "PENDING", "-", "20260131-120000-0a1b2d"}};
  for (int columns = 1; columns < 120; ++columns) {
    const std::string text = FittedTable(kJobs, rows, {.columns = columns});
    const bool paragraphs = absl::StrContains(text, "\n\n");
    if (!paragraphs) {
      EXPECT_LE(WidestOf(text), columns) << text;
    }
    EXPECT_EQ(paragraphs, columns < 8 + 11 + 6 + 12 + 3) << columns;
    // Only where names alone are not enough.
    EXPECT_EQ(absl::StrContains(text, "20260131-120000-0a1b2c"),
              paragraphs || columns >= 8 + 11 + 6 + 22 + 3)
        << columns << "\n"
        << text;
    if (paragraphs) {
      EXPECT_TRUE(absl::StrContains(text, std::string(63, 'n')));
    }
    // A screen that is drawn again and again clips lines itself.
    EXPECT_FALSE(
        absl::StrContains(FittedTable(kJobs, rows, {.columns = columns, .lines = true}), "\n\n"));
  }
  EXPECT_EQ(FittedTable({{"STATE"}, {"ID", CellFit::kId}}, {{"RUNNING", "20260131-120000-0a1b2c"}},
                        {.columns = 19}),
            "STATE  RUNNING\nID\n20260131-120000-0a1b2c\n");
}

TEST(TableTest, TextIsBrokenIntoLines) {
  const std::vector<Column> columns = {
      {"EVENT"}, {"POOL", CellFit::kName}, {"WHAT", CellFit::kText}};
  const std::vector<std::vector<std::string>> rows = {
      {"POOL_LOST", "east", "the lease has run out;  nothing came for 30 s; is the site there?"},
      {"POOL_BACK", "east", "short"}};
  EXPECT_EQ(FittedTable(columns, rows, {.columns = 60}),
            "EVENT     POOL WHAT\n"
            "POOL_LOST east the lease has run out; nothing came for 30 s;\n"
            "               is the site there?\n"
            "POOL_BACK east short\n");
  EXPECT_EQ(FittedTable(columns, rows, {.columns = 40}),
            "EVENT     POOL\n"
            "POOL_LOST east\n"
            "  the lease has run out; nothing came\n"
            "  for 30 s; is the site there?\n"
            "POOL_BACK east\n"
            "  short\n");
  EXPECT_TRUE(absl::StrContains(FittedTable(columns, rows), "out;  nothing"));
  EXPECT_LE(WidestOf(FittedTable(columns, rows, {.columns = 40, .lines = true})), 40);
}

TEST(TableTest, TheMiddleGoesWhereTheEndCounts) {
  EXPECT_EQ(ClipMiddle("/var/lib/longhaul/step-00000900", 20), "/var/lib...-00000900");
  EXPECT_EQ(ClipMiddle("20260131-120000-0a1b2c", 12), "2026...a1b2c");
  EXPECT_EQ(ClipMiddle("short", 5), "short");
  EXPECT_EQ(ClipMiddle("äöüäöüäöü", 8), "äö...äöü");
  EXPECT_EQ(ClipMiddle("abcdefghij", 6), "abcdef");
  EXPECT_EQ(ClipMiddle("abc", 0), "");
}

}  // namespace
}  // namespace longhaul::cli

#include "coordinator/cli/csv_rows.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "coordinator/cli/text.h"

namespace longhaul::cli {
namespace {

constexpr size_t kRowsMax = 100000;

std::vector<std::string> CellsOf(absl::string_view line) {
  std::vector<std::string> cells;
  for (absl::string_view cell : absl::StrSplit(line, ',')) {
    cell = absl::StripAsciiWhitespace(cell);
    if (cell.size() >= 2 && cell.front() == '"' && cell.back() == '"')
      cell = cell.substr(1, cell.size() - 2);
    cells.emplace_back(cell);
  }
  return cells;
}

// One heading for the ways to write it.
std::string HeadingOf(absl::string_view cell) {
  return absl::StrReplaceAll(
      absl::AsciiStrToLower(cell),
      {{" ", "_"}, {"accesses", "acc"}, {"misses", "miss"}, {"instructions", "instr"}});
}

std::string At(const std::string& path, int line, size_t column) {
  return absl::StrCat(path, " line ", line, ", column ", column);
}

// What is wrong with the headings, or empty.
std::string WrongHeadings(const std::string& path, int line,
                          const std::vector<std::string>& headings,
                          const std::vector<std::string>& expected) {
  const std::string all =
      absl::StrCat("; the columns must be ", absl::StrJoin(expected, ","), ", separated by commas");
  if (headings.front() != expected.front()) {
    return absl::StrCat(At(path, line, 1), ": expected the heading ", expected.front(), ", found '",
                        Printable(headings.front()), "'", all);
  }
  for (size_t c = 1; c < headings.size(); ++c) {
    const std::string& heading = headings[c];
    const bool known = std::find(expected.begin(), expected.end(), heading) != expected.end();
    const auto first = std::find(headings.begin(), headings.begin() + c, heading);
    if (known && first == headings.begin() + c) continue;
    return absl::StrCat(At(path, line, c + 1), ": '", Printable(heading), "' ",
                        known ? "comes twice" : "is not one of them", all);
  }
  for (const std::string& heading : expected) {
    if (std::find(headings.begin(), headings.end(), heading) == headings.end())
      return absl::StrCat(At(path, line, headings.size() + 1), ": expected the heading ", heading,
                          ", found the end of the line", all);
  }
  return "";
}

}  // namespace

absl::StatusOr<std::vector<CsvRow>> ParseCsv(const std::string& path, absl::string_view text,
                                             absl::string_view name,
                                             const std::vector<CsvColumn>& columns) {
  std::vector<std::string> expected = {std::string(name)};
  std::map<std::string, CsvColumn> ranges;
  for (const CsvColumn& column : columns) {
    expected.push_back(column.heading);
    ranges[column.heading] = column;
  }
  std::vector<std::string> headings;
  std::map<std::string, int> places;
  std::vector<CsvRow> rows;
  int line = 0;
  // Spreadsheets begin a file with it.
  absl::ConsumePrefix(&text, "\xef\xbb\xbf");
  for (const absl::string_view raw : absl::StrSplit(text, '\n')) {
    ++line;
    const absl::string_view stripped = absl::StripAsciiWhitespace(raw);
    if (stripped.empty() || stripped.front() == '#') continue;
    std::vector<std::string> cells = CellsOf(stripped);
    if (headings.empty()) {
      for (std::string& cell : cells) cell = HeadingOf(cell);
      headings = std::move(cells);
      if (const std::string wrong = WrongHeadings(path, line, headings, expected); !wrong.empty())
        return absl::InvalidArgumentError(wrong);
      for (size_t c = 0; c < headings.size(); ++c) places[headings[c]] = static_cast<int>(c) + 1;
      continue;
    }
    if (cells.size() != headings.size()) {
      return absl::InvalidArgumentError(
          absl::StrCat(At(path, line, std::min(cells.size(), headings.size()) + 1), ": it has ",
                       cells.size(), " columns instead of ", headings.size()));
    }
    if (rows.size() == kRowsMax) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, " line ", line, ": more than ", kRowsMax, " rows"));
    }
    CsvRow& row = rows.emplace_back(CsvRow{.line = line, .name = cells.front(), .columns = places});
    if (row.name.empty())
      return WrongCell(path, row, expected.front(), "expected a name, found nothing");
    for (size_t c = 1; c < cells.size(); ++c) {
      const CsvColumn& range = ranges.at(headings[c]);
      double& number = row.numbers[headings[c]];
      if (absl::SimpleAtod(cells[c], &number) && number >= range.least && number <= range.most)
        continue;
      return WrongCell(path, row, headings[c],
                       absl::StrFormat("expected a number from %g to %g, found '%s'", range.least,
                                       range.most, Printable(cells[c])));
    }
  }
  if (rows.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(path, " line ", line,
                                                   ": there are no rows; expected the columns ",
                                                   absl::StrJoin(expected, ",")));
  }
  return rows;
}

absl::Status WrongCell(const std::string& path, const CsvRow& row, const std::string& column,
                       absl::string_view what) {
  return absl::InvalidArgumentError(
      absl::StrCat(At(path, row.line, row.columns.at(column)), " (", column, "): ", what));
}

}  // namespace longhaul::cli

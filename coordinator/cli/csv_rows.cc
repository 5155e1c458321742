#include "coordinator/cli/csv_rows.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "coordinator/cli/text.h"

namespace longhaul::cli {
namespace {

constexpr size_t kRowsMax = 100000;

std::vector<std::string> CellsOf(absl::string_view line) {
  std::vector<std::string> cells;
  for (const absl::string_view cell : absl::StrSplit(line, ','))
    cells.emplace_back(absl::StripAsciiWhitespace(cell));
  return cells;
}

}  // namespace

absl::StatusOr<std::vector<CsvRow>> ParseCsv(const std::string& path, absl::string_view text,
                                             absl::string_view name,
                                             const std::vector<std::string>& columns) {
  const auto wrong = [&](int line, absl::string_view what) {
    return absl::InvalidArgumentError(absl::StrCat(path, " line ", line, ": ", what));
  };
  std::vector<std::string> headings;
  std::vector<CsvRow> rows;
  int line = 0;
  for (const absl::string_view raw : absl::StrSplit(text, '\n')) {
    ++line;
    const absl::string_view stripped = absl::StripAsciiWhitespace(raw);
    if (stripped.empty() || stripped.front() == '#') continue;
    std::vector<std::string> cells = CellsOf(stripped);
    if (headings.empty()) {
      for (std::string& cell : cells)
        cell = absl::StrReplaceAll(absl::AsciiStrToLower(cell), {{" ", "_"}});
      std::vector<std::string> expected = columns;
      expected.emplace(expected.begin(), name);
      if (!std::is_permutation(cells.begin(), cells.end(), expected.begin(), expected.end()) ||
          cells.front() != name) {
        return wrong(line, absl::StrCat("the columns must be ", absl::StrJoin(expected, ",")));
      }
      headings = std::move(cells);
      continue;
    }
    if (cells.size() != headings.size()) {
      return wrong(line,
                   absl::StrCat("it has ", cells.size(), " columns instead of ", headings.size()));
    }
    if (rows.size() == kRowsMax) return wrong(line, absl::StrCat("more than ", kRowsMax, " rows"));
    CsvRow& row = rows.emplace_back(CsvRow{.line = line, .name = cells.front()});
    for (size_t c = 1; c < cells.size(); ++c) {
      double& number = row.numbers[headings[c]];
      if (!absl::SimpleAtod(cells[c], &number) || !std::isfinite(number) || number < 0) {
        return wrong(line, absl::StrCat("column ", c + 1, " (", headings[c], "): '",
                                        Printable(cells[c]), "' is not a number from 0 on"));
      }
    }
  }
  if (rows.empty()) return wrong(line, "there are no rows");
  return rows;
}

}  // namespace longhaul::cli

// Rows of a CSV file with a heading, for models that users feed with their own numbers.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace longhaul::cli {

struct CsvColumn {
  std::string heading;
  // Numbers outside are refused.
  double least = 0, most = 0;
};

struct CsvRow {
  // In the file, from 1.
  int line = 0;
  std::string name;
  // By heading.
  std::map<std::string, double> numbers;
  // By heading; from 1.
  std::map<std::string, int> columns;
};

// The first column of each row is a name, under the heading `name`; the other headings must be
// those of `columns`, in any order. Headings count without case, with '_' for spaces, and with
// "acc", "miss" and "instr" for "accesses", "misses" and "instructions". Cells may be in double
// quotes. Empty lines and those that begin with '#' are passed over. INVALID_ARGUMENT: names
// `path`, line, column and what was expected; also if there are no rows, or more than 100,000.
absl::StatusOr<std::vector<CsvRow>> ParseCsv(const std::string& path, absl::string_view text,
                                             absl::string_view name,
                                             const std::vector<CsvColumn>& columns);

// INVALID_ARGUMENT at this place of the file. `column`: a heading.
absl::Status WrongCell(const std::string& path, const CsvRow& row, const std::string& column,
                       absl::string_view what);

}  // namespace longhaul::cli

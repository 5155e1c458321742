// Rows of a CSV file with a heading, for models that users feed with their own numbers.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace longhaul::cli {

struct CsvRow {
  // In the file, from 1.
  int line = 0;
  std::string name;
  // By column.
  std::map<std::string, double> numbers;
};

// The first column of each row is a name, under the heading `name`; the other headings must be
// `columns` in any order. Headings count without case, and with '_' for spaces. Numbers are finite
// and not negative. Empty lines and those that begin with '#' are passed over. INVALID_ARGUMENT:
// names `path`, line, column and what was expected; also if there are no rows, or more than
// 100,000.
absl::StatusOr<std::vector<CsvRow>> ParseCsv(const std::string& path, absl::string_view text,
                                             absl::string_view name,
                                             const std::vector<std::string>& columns);

}  // namespace longhaul::cli

// Tables that fit a terminal.
#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace longhaul::cli {

// What becomes of a column's cells where the table is too wide.
enum class CellFit {
  // Nothing.
  kWhole,
  // They end with "...".
  kName,
  // "..." stands in their middle.
  kPath,
  // The same, once names and paths are as short as they may be: people copy ids.
  kId,
  // They are broken into lines. Only the last column.
  kText,
};

struct Column {
  std::string heading;
  CellFit fit = CellFit::kWhole;
};

struct TableWidth {
  // 0: any.
  int columns = 0;
  // A row is one line, however wide, and kText is as kName.
  bool lines = false;
};

// Left-aligned columns two spaces apart, each as wide as its widest cell, in as many columns of the
// terminal as `width` has. Where it is too wide, headings take two lines, then columns are one
// space apart, then cells are shortened, the widest first. Where that is not enough each row is a
// paragraph with a line for each cell. Cells are made printable.
std::string FittedTable(const std::vector<Column>& columns,
                        const std::vector<std::vector<std::string>>& rows, TableWidth width = {});

// At most so many columns; "..." replaces the middle of what is longer. Whole characters of UTF-8.
std::string ClipMiddle(absl::string_view text, int columns);

}  // namespace longhaul::cli

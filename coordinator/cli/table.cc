#include "coordinator/cli/table.h"

#include <algorithm>
#include <numeric>
#include <tuple>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "coordinator/cli/text.h"

namespace longhaul::cli {
namespace {

using Rows = std::vector<std::vector<std::string>>;

// Shorter ones say nothing.
constexpr int kNameMin = 8, kIdMin = 12;
// Text in a narrower column is hard to read.
constexpr int kTextMin = 32;
// Of text below the other columns.
constexpr int kIndent = 2;

// "TOKENS/S" has two lines: "TOKENS" and "/S".
std::pair<std::string, std::string> Halves(const std::string& heading) {
  const size_t at = heading.find_first_of(" /");
  if (at == std::string::npos) return {"", heading};
  return {heading.substr(0, at), heading.substr(heading[at] == ' ' ? at + 1 : at)};
}

class Table {
 public:
  Table(const std::vector<Column>& columns, const Rows& rows, TableWidth width)
      : columns_(columns), width_(width) {
    for (const auto& row : rows) {
      rows_.emplace_back();
      for (const std::string& cell : row) rows_.back().push_back(Printable(cell));
    }
    Measure(/*halves=*/false);
  }

  std::string Text() {
    if (Fits()) return Lines(/*halves=*/false);
    // The last column needs nothing of the width where its text has lines of its own.
    const bool text = !width_.lines && columns_.back().fit == CellFit::kText;
    const int wide = widths_.back();
    Measure(/*halves=*/true);
    if (!text && Fits()) return Lines(/*halves=*/true);
    gap_ = 1;
    if (text) {
      widths_.back() = std::min(wide, kTextMin);
      Shrink({CellFit::kName, CellFit::kPath}, kNameMin);
      if (Fits()) {
        widths_.back() = std::min(wide, widths_.back() + width_.columns - Sum());
        return Lines(/*halves=*/true);
      }
      below_ = true;
      Measure(/*halves=*/true);
    }
    Shrink({CellFit::kName, CellFit::kPath, CellFit::kText}, kNameMin);
    Shrink({CellFit::kId}, kIdMin);
    return Fits() || width_.lines ? Lines(/*halves=*/true) : Paragraphs();
  }

 private:
  size_t shown() const { return columns_.size() - (below_ ? 1 : 0); }
  int Sum() const {
    return std::accumulate(widths_.begin(), widths_.begin() + shown(), 0) +
           gap_ * (static_cast<int>(shown()) - 1);
  }
  bool Fits() const { return width_.columns <= 0 || Sum() <= width_.columns; }

  void Measure(bool halves) {
    widths_.assign(columns_.size(), 0);
    for (size_t i = 0; i < columns_.size(); ++i) {
      const auto [above, heading] = Halves(columns_[i].heading);
      widths_[i] =
          halves ? std::max(ColumnsOf(above), ColumnsOf(heading)) : ColumnsOf(columns_[i].heading);
      for (const auto& row : rows_) widths_[i] = std::max(widths_[i], ColumnsOf(row[i]));
    }
  }

  // Takes from the widest columns that may be shortened so, until all fits or none is wider than
  // `min`.
  void Shrink(const std::vector<CellFit>& fits, int min) {
    while (!Fits()) {
      int* widest = nullptr;
      for (size_t i = 0; i < shown(); ++i) {
        if (std::find(fits.begin(), fits.end(), columns_[i].fit) == fits.end()) continue;
        if (widths_[i] > min && (widest == nullptr || widths_[i] > *widest)) widest = &widths_[i];
      }
      if (widest == nullptr) return;
      --*widest;
    }
  }

  std::string Cell(size_t column, const std::string& cell) const {
    const CellFit fit = columns_[column].fit;
    return fit == CellFit::kId || fit == CellFit::kPath ? ClipMiddle(cell, widths_[column])
                                                        : ClipColumns(cell, widths_[column]);
  }

  std::string Line(const std::vector<std::string>& cells) const {
    std::string line;
    for (size_t i = 0; i < shown(); ++i) {
      absl::StrAppend(&line, i > 0 ? std::string(gap_, ' ') : "", cells[i],
                      std::string(std::max(0, widths_[i] - ColumnsOf(cells[i])), ' '));
    }
    return absl::StrCat(absl::StripTrailingAsciiWhitespace(line), "\n");
  }

  std::string Headings(bool halves) const {
    std::vector<std::string> above(columns_.size()), headings(columns_.size());
    for (size_t i = 0; i < columns_.size(); ++i) {
      headings[i] = columns_[i].heading;
      if (halves && ColumnsOf(headings[i]) > widths_[i])
        std::tie(above[i], headings[i]) = Halves(columns_[i].heading);
    }
    const std::string first = Line(above);
    return absl::StrCat(first == "\n" ? "" : first, Line(headings));
  }

  std::string Lines(bool halves) const {
    std::string text = Headings(halves);
    for (const auto& row : rows_) {
      std::vector<std::string> cells;
      for (size_t i = 0; i < row.size(); ++i) cells.push_back(Cell(i, row[i]));
      const std::vector<std::string> broken = Broken(row.back());
      if (!below_ && !broken.empty()) cells.back() = broken.front();
      absl::StrAppend(&text, Line(cells));
      const std::string indent(below_ ? kIndent : Sum() - widths_.back(), ' ');
      for (size_t i = below_ ? 0 : 1; i < broken.size(); ++i)
        absl::StrAppend(&text, indent, broken[i], "\n");
    }
    return text;
  }

  // The lines of the last column's text. None: it is not broken.
  std::vector<std::string> Broken(const std::string& cell) const {
    if (columns_.back().fit != CellFit::kText || width_.lines || cell.empty()) return {};
    const int wide = below_ ? width_.columns - kIndent : widths_.back();
    if (ColumnsOf(cell) <= wide) return {cell};
    return absl::StrSplit(absl::StripTrailingAsciiWhitespace(WrapText(cell, wide)), '\n');
  }

  std::string Paragraphs() const {
    std::string text;
    for (const auto& row : rows_) {
      if (!text.empty()) absl::StrAppend(&text, "\n");
      for (size_t i = 0; i < columns_.size(); ++i) {
        const std::string line = absl::StrCat(columns_[i].heading, "  ", row[i]);
        absl::StrAppend(&text,
                        ColumnsOf(line) <= width_.columns
                            ? line
                            : absl::StrCat(columns_[i].heading, "\n", row[i]),
                        "\n");
      }
    }
    return text;
  }

  const std::vector<Column>& columns_;
  const TableWidth width_;
  Rows rows_;
  std::vector<int> widths_;
  // Between two columns.
  int gap_ = 2;
  // The text of the last column is below the others.
  bool below_ = false;
};

}  // namespace

std::string FittedTable(const std::vector<Column>& columns, const Rows& rows, TableWidth width) {
  return Table(columns, rows, width).Text();
}

std::string ClipMiddle(absl::string_view text, int columns) {
  constexpr absl::string_view kMark = "...";
  const int left = columns - static_cast<int>(kMark.size());
  if (ColumnsOf(text) <= columns || left < 4) return ClipColumns(text, columns);
  // The end tells one from another, more often than the beginning.
  const int tail = (left + 1) / 2;
  size_t at = text.size();
  for (int taken = 0; at > 0 && taken < tail;) {
    if ((text[--at] & 0xC0) != 0x80) ++taken;
  }
  size_t end = 0;
  for (int taken = 0; end < text.size(); ++end) {
    if ((text[end] & 0xC0) != 0x80 && taken++ == left - tail) break;
  }
  return absl::StrCat(text.substr(0, end), kMark, text.substr(at));
}

}  // namespace longhaul::cli

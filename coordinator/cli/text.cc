#include "coordinator/cli/text.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "common/base/escaped_text.h"
#include "common/base/utf8.h"

namespace longhaul::cli {

std::string Printable(absl::string_view text) {
  std::string result;
  while (!text.empty()) {
    const size_t size = Utf8Size(text);
    const absl::string_view character = text.substr(0, std::max<size_t>(1, size));
    text.remove_prefix(character.size());
    if (size > 0 && DrivesTerminal(character)) {
      result.append(character.size(), '?');
    } else {
      result.append(character.data(), character.size());
    }
  }
  return result;
}

std::string LineText(absl::string_view text) {
  return Printable(absl::StrReplaceAll(text, {{"\n", "\\n"}, {"\r", "\\r"}, {"\t", "\\t"}}));
}

std::string CountText(double count) {
  static constexpr const char* kUnits[] = {"", "k", "M", "G", "T"};
  int unit = 0;
  for (; count >= 1000 && unit < 4; ++unit) count /= 1000;
  return unit == 0 ? absl::StrFormat("%.0f", count)
                   : absl::StrFormat("%.1f%s", count, kUnits[unit]);
}

std::string DurationText(absl::Duration duration) {
  const int64_t seconds =
      std::max<int64_t>(0, std::llround(std::min(1e15, absl::ToDoubleSeconds(duration))));
  const int64_t minutes = seconds / 60, hours = minutes / 60, days = hours / 24;
  if (days > 0) return absl::StrFormat("%dd%02dh", days, hours % 24);
  if (hours > 0) return absl::StrFormat("%dh%02dm", hours, minutes % 60);
  if (minutes > 0) return absl::StrFormat("%dm%02ds", minutes, seconds % 60);
  return absl::StrFormat("%ds", seconds);
}

int ColumnsOf(absl::string_view text) {
  return static_cast<int>(
      std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

std::string ClipColumns(absl::string_view text, int columns) {
  if (columns <= 0) return "";
  if (ColumnsOf(text) <= columns) return std::string(text);
  const absl::string_view mark = columns > 6 ? "..." : "";
  int left = columns - static_cast<int>(mark.size());
  size_t end = 0;
  for (; end < text.size(); ++end) {
    if ((text[end] & 0xC0) != 0x80 && left-- == 0) break;
  }
  return absl::StrCat(text.substr(0, end), mark);
}

std::string WrapText(absl::string_view text, int columns, absl::string_view indent) {
  std::string result;
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    std::string row;
    for (const absl::string_view word : absl::StrSplit(line, ' ', absl::SkipEmpty())) {
      const bool full = ColumnsOf(indent) + ColumnsOf(row) + 1 + ColumnsOf(word) > columns;
      if (!row.empty() && full) {
        absl::StrAppend(&result, indent, row, "\n");
        row.clear();
      }
      absl::StrAppend(&row, row.empty() ? "" : " ", word);
    }
    absl::StrAppend(&result, row.empty() ? "" : indent, row, "\n");
  }
  return result;
}

std::string PairsText(const std::vector<std::pair<std::string, std::string>>& pairs) {
  int width = 0;
  for (const auto& [key, value] : pairs) width = std::max(width, ColumnsOf(key));
  std::string text;
  for (const auto& [key, value] : pairs) {
    const std::string gap(width - ColumnsOf(key) + 2, ' ');
    const std::string line = absl::StrCat(Printable(key), gap, Printable(value));
    absl::StrAppend(&text, absl::StripTrailingAsciiWhitespace(line), "\n");
  }
  return text;
}

}  // namespace longhaul::cli

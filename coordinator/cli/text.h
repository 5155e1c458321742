// Text for people: safe characters, units, columns.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace longhaul::cli {

// Without what drives a terminal (DrivesTerminal), which a server could send.
std::string Printable(absl::string_view text);

// Printable on one line: line ends and tabs become \n, \r and \t.
std::string LineText(absl::string_view text);

std::string CountText(double count);                // "812", "42.1k", "1.2M"
std::string DurationText(absl::Duration duration);  // Rounded: "8s", "3m20s", "2h05m", "3d04h"

// Characters as a terminal counts them, if each is one column wide.
int ColumnsOf(absl::string_view text);
// At most so many columns; what is longer ends with "...", if that fits. Whole characters of UTF-8.
std::string ClipColumns(absl::string_view text, int columns);
// Lines of at most so many columns, broken at spaces; lines of `text` stay lines. Each begins with
// `indent`.
std::string WrapText(absl::string_view text, int columns, absl::string_view indent = "");

// "key   value" lines, made printable; the values stand below each other.
std::string PairsText(const std::vector<std::pair<std::string, std::string>>& pairs);

}  // namespace longhaul::cli

#include "common/config/checks.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "common/base/escaped_text.h"
#include "common/base/names.h"
#include "common/base/nearest_name.h"
#include "common/base/utf8.h"

namespace longhaul {
namespace {

constexpr size_t kPathMax = 4096;
// How much of a wrong value a message shows.
constexpr size_t kQuotedMax = 80;

std::string Quote(absl::string_view text) {
  return absl::StrCat("'", EscapedText(ClipUtf8(text, kQuotedMax)),
                      text.size() > kQuotedMax ? "...'" : "'");
}

}  // namespace

void RequireInteger(ViolationList& violations, const std::string& field, int64_t value, int64_t low,
                    int64_t high, const std::string& hint) {
  if (low <= value && value <= high) return;
  violations.Invalid(field, absl::StrFormat("found %d, expected %d to %d", value, low, high), hint);
}

void RequireNumber(ViolationList& violations, const std::string& field, double value,
                   const Interval& interval, const std::string& hint) {
  const bool above = interval.open_low ? value > interval.low : value >= interval.low;
  const bool below = interval.open_high ? value < interval.high : value <= interval.high;
  if (above && below) return;
  violations.Invalid(
      field,
      absl::StrFormat("found %g, expected a number in %c%g, %g%c", value, "[("[interval.open_low],
                      interval.low, interval.high, "])"[interval.open_high]),
      hint);
}

void RequireName(ViolationList& violations, const std::string& field, absl::string_view name) {
  if (IsName(name)) return;
  violations.Invalid(field, name.empty() ? std::string("is required") : "found " + Quote(name),
                     kNameForm);
}

void RequirePath(ViolationList& violations, const std::string& field, absl::string_view path) {
  if (path.empty()) {
    violations.Invalid(field, "is required", "absolute, or relative to the worker's --data-dir");
  } else if (path.size() > kPathMax || absl::StrContains(path, '\0')) {
    violations.Invalid(field, absl::StrFormat("found %s, expected at most %d bytes without NUL",
                                              Quote(path), kPathMax));
  }
}

void RequireChoice(ViolationList& violations, const std::string& field, absl::string_view value,
                   const std::vector<std::string>& built, const std::vector<std::string>& later) {
  const auto in = [&](const std::vector<std::string>& names) {
    return std::find(names.begin(), names.end(), value) != names.end();
  };
  if (in(built)) return;
  if (in(later)) {
    violations.NotBuilt(field, absl::StrFormat("%s is not built yet", Quote(value)),
                        absl::StrCat("use ", absl::StrJoin(built, " or ")));
    return;
  }
  std::vector<std::string> known = built;
  known.insert(known.end(), later.begin(), later.end());
  violations.Invalid(field, absl::StrFormat("found %s", Quote(value)),
                     NearestNameHint(value, known));
}

}  // namespace longhaul

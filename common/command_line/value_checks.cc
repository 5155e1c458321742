#include "common/command_line/value_checks.h"

#include <algorithm>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/check.h"
#include "common/base/nearest_name.h"

namespace longhaul {

CLI::Validator OneOf(std::vector<std::string> values) {
  return CLI::Validator(
      [values = std::move(values)](const std::string& text) -> std::string {
        if (std::find(values.begin(), values.end(), text) != values.end()) return "";
        const std::string nearest = NearestName(text, values);
        return absl::StrCat(
            "'", text, "' is not one of ", absl::StrJoin(values, ", "),
            nearest.empty() ? "" : absl::StrCat(" (did you mean '", nearest, "'?)"));
      },
      "");
}

CLI::Validator WholeNumber(int64_t least, int64_t most) {
  return CLI::Validator(
      [=](const std::string& text) -> std::string {
        int64_t number;
        const bool within = absl::SimpleAtoi(text, &number) && number >= least && number <= most;
        if (within && absl::StrCat(number) == text) return "";
        return absl::StrCat("'", text, "' is not a whole number from ", least, " to ", most,
                            within ? absl::StrCat("; write ", number) : "");
      },
      "");
}

CLI::Validator Number(double least, double most) {
  return CLI::Validator(
      [=](const std::string& text) -> std::string {
        double number;
        if (absl::SimpleAtod(text, &number) && number >= least && number <= most) return "";
        return absl::StrCat("'", text, "' is not a number from ", least, " to ", most);
      },
      "");
}

CLI::Validator TimeSpan(absl::Duration least, absl::Duration most) {
  return CLI::Validator(
      [=](const std::string& text) -> std::string {
        absl::Duration time;
        if (absl::ParseDuration(text, &time) && time >= least && time <= most) return "";
        return absl::StrCat("'", text, "' is not a duration from ", absl::FormatDuration(least),
                            " to ", absl::FormatDuration(most), ", for example 90s or 10m");
      },
      "");
}

absl::Duration CheckedTime(const std::string& text) {
  absl::Duration time;
  LH_CHECK(absl::ParseDuration(text, &time), "a time that TimeSpan accepted");
  return time;
}

}  // namespace longhaul

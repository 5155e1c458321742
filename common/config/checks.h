// Checks of single fields. Each reports what was found and what was expected.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "common/config/violation_list.h"

namespace longhaul {

// The least number that float32 can hold precisely: for what is computed in it, and must not be 0.
inline constexpr double kFloatMin = std::numeric_limits<float>::min();

// Requires low <= value <= high.
void RequireInteger(ViolationList& violations, const std::string& field, int64_t value, int64_t low,
                    int64_t high, const std::string& hint = "");

// An interval of numbers. NaN is not in any.
struct Interval {
  double low = 0, high = 0;
  bool open_low = false, open_high = false;
};
void RequireNumber(ViolationList& violations, const std::string& field, double value,
                   const Interval& interval, const std::string& hint = "");

// Requires a name of a job or pool: 1 to 63 of [a-z0-9-], beginning with a letter.
void RequireName(ViolationList& violations, const std::string& field, absl::string_view name);

// Requires a path of 1 to 4096 bytes without NUL.
void RequirePath(ViolationList& violations, const std::string& field, absl::string_view path);

// Requires one of `built`. A name in `later` is reported as not built yet; any other with the
// nearest name of both lists.
void RequireChoice(ViolationList& violations, const std::string& field, absl::string_view value,
                   const std::vector<std::string>& built, const std::vector<std::string>& later);

}  // namespace longhaul

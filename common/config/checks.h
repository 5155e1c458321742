// The few shapes that checks of single fields take; each reports what was found and what was
// expected.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "common/config/violation_list.h"

namespace longhaul {

// low <= value <= high.
void RequireInteger(ViolationList& violations, const std::string& field, int64_t value, int64_t low,
                    int64_t high, const std::string& hint = "");

// An interval of numbers; NaN is in none.
struct Interval {
  double low = 0, high = 0;
  bool open_low = false, open_high = false;
};
void RequireNumber(ViolationList& violations, const std::string& field, double value,
                   const Interval& interval, const std::string& hint = "");

// 1 to 63 of [a-z0-9-], beginning with a letter: names of jobs and pools.
void RequireName(ViolationList& violations, const std::string& field, absl::string_view name);

// A path of 1 to 4096 bytes without NUL.
void RequirePath(ViolationList& violations, const std::string& field, absl::string_view path);

// One of `built`; a name in `later` is reported as not built, another with the nearest of both.
void RequireChoice(ViolationList& violations, const std::string& field, absl::string_view value,
                   const std::vector<std::string>& built, const std::vector<std::string>& later);

}  // namespace longhaul

#include "common/config/spec_violation.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace longhaul {
namespace {

void AppendViolation(std::string* out, const SpecViolation& violation) {
  if (!violation.field.empty()) absl::StrAppend(out, violation.field, ": ");
  absl::StrAppend(out, Describe(violation));
}

}  // namespace

std::string Describe(const SpecViolation& violation) {
  if (violation.hint.empty()) return violation.description;
  return absl::StrCat(violation.description, " (", violation.hint, ")");
}

absl::Status ViolationsToStatus(const std::vector<SpecViolation>& violations) {
  if (violations.empty()) return absl::OkStatus();
  const bool unimplemented = std::all_of(violations.begin(), violations.end(),
                                         [](const SpecViolation& v) { return v.unimplemented; });
  return absl::Status(
      unimplemented ? absl::StatusCode::kUnimplemented : absl::StatusCode::kInvalidArgument,
      absl::StrJoin(violations, "; ", AppendViolation));
}

}  // namespace longhaul

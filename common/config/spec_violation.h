// What is wrong with one field of a spec.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"

namespace longhaul {

struct SpecViolation {
  // Path in the spec, for example "sync.up.codec". Empty: the whole document.
  std::string field;
  // What was found and what was expected.
  std::string description;
  // What to do about it. May be empty.
  std::string hint;
  // The field is well formed, but this version does not have the feature.
  bool unimplemented = false;

  friend bool operator==(const SpecViolation&, const SpecViolation&) = default;
};

// Description and hint in one text, as in google.rpc.BadRequest.FieldViolation.description: "found
// 30, expected 0 to 29, below h", "unknown field (did you mean 'tau'?)".
std::string Describe(const SpecViolation& violation);

// One status for all violations: UNIMPLEMENTED if every one is, otherwise INVALID_ARGUMENT. The
// message names every field. OK if there are none.
absl::Status ViolationsToStatus(const std::vector<SpecViolation>& violations);

}  // namespace longhaul

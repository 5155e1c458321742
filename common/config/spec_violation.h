// What is wrong with one field of a spec.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"

namespace longhaul {

struct SpecViolation {
  std::string field;           // Path in the spec, as "sync.up.codec". Empty: the whole document.
  std::string description;     // What was found and what was expected.
  std::string hint;            // What to do about it. May be empty.
  bool unimplemented = false;  // Well formed, but this version does not have it.

  friend bool operator==(const SpecViolation&, const SpecViolation&) = default;
};

// Description and hint in one text, as google.rpc.BadRequest.FieldViolation.description carries
// them: "found 30, expected 0 to 29, below h", "unknown field (did you mean 'tau'?)".
std::string Describe(const SpecViolation& violation);

// One status for all of them: UNIMPLEMENTED if every violation is, else INVALID_ARGUMENT; the
// message names every field. OK if there are none.
absl::Status ViolationsToStatus(const std::vector<SpecViolation>& violations);

}  // namespace longhaul

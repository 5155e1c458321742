// Guesses the name that a mistyped one should be.
#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace longhaul {

// The candidate at the least edit distance (insert, delete, replace, swap of neighbours; case does
// not count), or the first of several. Empty if none is near. A candidate is near if at most a
// third of the longer name differs, or only one edit is needed; where both have less than four
// characters, one that replaces none. A name of more than 64 characters has no near candidate.
std::string NearestName(absl::string_view name, const std::vector<std::string>& candidates);

// "did you mean 'tau'?". If none is near: "one of a, b, c", if there are at most 16.
std::string NearestNameHint(absl::string_view name, const std::vector<std::string>& candidates);

}  // namespace longhaul

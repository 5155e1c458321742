// Finds what a mistyped name was meant to be.
#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace longhaul {

// The candidate at the least edit distance (insert, delete, replace, swap of neighbours; case does
// not count), the first of several. Empty if none is near: more than a third of the longer name
// differs, but one edit is always near. A name of more than 64 characters is near to none.
std::string NearestName(absl::string_view name, const std::vector<std::string>& candidates);

// "did you mean 'tau'?", or "one of a, b, c" if none is near and there are at most 16.
std::string NearestNameHint(absl::string_view name, const std::vector<std::string>& candidates);

}  // namespace longhaul

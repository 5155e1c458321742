// The names that clients choose: their form, checked before anything is done with them. Pure.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace longhaul::coordinator {

inline constexpr int kRanksMax = 4096;  // Of one pool.

// 1 to 63 of [a-z0-9-], beginning with a letter: names of jobs and pools.
bool IsName(absl::string_view name);
// 16 to 64 of [0-9a-f].
bool IsIncarnation(absl::string_view incarnation);

// INVALID_ARGUMENT with one violation for each of `pool` and `incarnation` that is malformed.
absl::Status CheckPool(absl::string_view pool, absl::string_view incarnation);

}  // namespace longhaul::coordinator

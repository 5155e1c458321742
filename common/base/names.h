// The form of the names and secrets that people and programs choose, checked before anything is
// done with them. Pure.
#pragma once

#include "absl/strings/string_view.h"

namespace longhaul {

inline constexpr int kRanksMax = 256;  // Of one pool, on all of its nodes.

// What the ranks of a pool show where they meet.
inline constexpr int kRendezvousTokenBytesMin = 16, kRendezvousTokenBytesMax = 64;

// In words, after "is not".
inline constexpr char kNameForm[] = "1 to 63 of [a-z0-9-], beginning with a letter";
inline constexpr char kIncarnationForm[] = "16 to 64 of [0-9a-f]";

// Names of jobs and pools.
bool IsName(absl::string_view name);
bool IsIncarnation(absl::string_view incarnation);

}  // namespace longhaul

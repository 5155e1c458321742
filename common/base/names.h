// The form of names and secrets that people and programs choose. It is checked before they are
// used. Pure.
#pragma once

#include "absl/strings/string_view.h"

namespace longhaul {

// For one pool, on all of its nodes.
inline constexpr int kRanksMax = 256;

// The secret that the ranks of a pool show at their rendezvous.
inline constexpr int kRendezvousTokenBytesMin = 16, kRendezvousTokenBytesMax = 64;

// A capability of pools (JoinRequest.capabilities): they stop when Assignment.stop says so.
inline constexpr char kStopsWhenAsked[] = "assignment:stop";

// Used in messages after "is not".
inline constexpr char kNameForm[] = "1 to 63 of [a-z0-9-], beginning with a letter";
inline constexpr char kIncarnationForm[] = "16 to 64 of [0-9a-f]";

// Names of jobs and pools.
bool IsName(absl::string_view name);
bool IsIncarnation(absl::string_view incarnation);

}  // namespace longhaul

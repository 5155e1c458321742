// Bounds that both ends of the rendezvous (longhaul/v1/rendezvous.proto) keep and check.
#pragma once

#include <cstdint>

#include "absl/time/time.h"
#include "common/base/names.h"

namespace longhaul {

inline constexpr int64_t kRendezvousBlobBytesMax = 64 << 10;

// With room for the other fields, including those that a later version adds.
inline constexpr int64_t kRendezvousRequestBytesMax = kRendezvousBlobBytesMax + 4096;
inline constexpr int64_t kRendezvousResponseBytesMax = kRanksMax * (kRendezvousBlobBytesMax + 16);

// How long a call may wait. Clients request less than the server allows, since a deadline is
// rounded up when it is sent.
inline constexpr absl::Duration kRendezvousWaitMax = absl::Hours(1);
inline constexpr absl::Duration kRendezvousTimeoutMax = absl::Minutes(50);

}  // namespace longhaul

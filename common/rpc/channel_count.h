// How many bulk channels a rank opens. One connection carries at most what its sender's kernel
// keeps until it is acknowledged, once a round trip: over a distant link a few connections together
// fill it. That they do not overfill it is what pacing is for (pacer.h).
#pragma once

#include <cstdint>

#include "absl/time/time.h"

namespace longhaul {

struct BulkLink {
  double megabits_per_second = 1000;  // What the ranks of a pool may use.
  absl::Duration round_trip;
  int64_t send_buffer_bytes = 4 << 20;  // The most that a connection's sender keeps.
};

inline constexpr int kDistantChannelsMin = 4, kDistantChannelsMax = 16;

// 1 where the round trip is below 3 ms; else twice bandwidth x round trip over the send buffer,
// rounded up, within the two constants.
int BulkChannelCount(const BulkLink& link);

// What pushes over such a link should be held to: a little less than its bandwidth, so that headers
// (3.5 % of packets of 1500 bytes) fit in and no queue builds up.
inline double PacedBytesPerSecond(const BulkLink& link) {
  return 0.96 * link.megabits_per_second * 1e6 / 8;
}

}  // namespace longhaul

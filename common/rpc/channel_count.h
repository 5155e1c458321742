// How many bulk channels a rank opens. One connection carries at most what its sender's kernel
// keeps until it is acknowledged, once a round trip: over a distant link a few connections together
// fill it, each more only queues in front of the others' bytes and of the control calls.
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

// 1 where the round trip is below 3 ms; else bandwidth x round trip over what a send buffer holds
// of payload, rounded up, within the two constants.
int BulkChannelCount(const BulkLink& link);

}  // namespace longhaul

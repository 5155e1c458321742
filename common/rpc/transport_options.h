// What both ends of a connection must agree on, in one place: keepalive and message limits.
#pragma once

#include <cstdint>

#include "absl/time/time.h"

namespace longhaul {

// Control calls: requests and answers as protos. Bulk calls: streams of chunks (fragment_stream.h),
// 1 MiB each and a header.
inline constexpr int64_t kControlMessageBytesMax = 4 << 20;
inline constexpr int64_t kBulkMessageBytesMax = 2 << 20;
// Calls in flight on one connection; a client holds further ones back.
inline constexpr int kConnectionStreamsMax = 1024;

// A peer that vanished without closing its connection is noticed after time + timeout. Servers
// permit pings at half the interval that clients use, so that a late timer is never taken for
// abuse.
struct Keepalive {
  absl::Duration time = absl::Seconds(20);
  absl::Duration timeout = absl::Seconds(10);
};

}  // namespace longhaul

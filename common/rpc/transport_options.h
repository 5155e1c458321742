// The settings on which both ends of a connection must agree: keepalive and message limits.
#pragma once

#include <cstdint>

#include "absl/time/time.h"

namespace longhaul {

// Control calls have protos as requests and answers. Bulk calls are streams of chunks
// (fragment_stream.h), each of 1 MiB and a header.
inline constexpr int64_t kControlMessageBytesMax = 4 << 20;
inline constexpr int64_t kBulkMessageBytesMax = 2 << 20;
// How many calls may be in progress on one connection. A client delays further ones.
inline constexpr int kConnectionStreamsMax = 1024;

// A peer that vanished without closing its connection is noticed after time + timeout.
struct Keepalive {
  absl::Duration time = absl::Seconds(20);
  absl::Duration timeout = absl::Seconds(10);
};

// For what others wait for while it is silent: a pool's heartbeats and plans. Bulk channels are
// asked more seldom, since on a slow link the answer waits behind the bytes that were sent before.
inline constexpr Keepalive kPromptKeepalive = {.time = absl::Seconds(5)};

// How often a server permits pings: at half the interval that clients use, so that a late timer is
// never taken for abuse.
inline absl::Duration PingsPermitted(const Keepalive& server) { return server.time / 8; }

}  // namespace longhaul

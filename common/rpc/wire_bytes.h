// Bytes that a bulk call sends over a link.
#pragma once

#include <cstdint>

#include "common/base/checked_math.h"

namespace longhaul {

// `total` counts each message with its 5 bytes of gRPC prefix and an estimated 9 bytes of HTTP/2
// frame header for each 16 KiB (the default frame size). Headers, trailers, window updates, TLS and
// TCP are left out (below 1 % of 1 MiB messages).
struct WireBytes {
  // Coded bytes.
  int64_t payload = 0;
  int64_t total = 0;

  void AddMessage(int64_t message_bytes, int64_t payload_bytes) {
    const int64_t framed = message_bytes + 5;
    payload += payload_bytes;
    total += framed + 9 * CeilDiv(framed, 16384);
  }
  WireBytes& operator+=(const WireBytes& other) {
    payload += other.payload;
    total += other.total;
    return *this;
  }
};

}  // namespace longhaul

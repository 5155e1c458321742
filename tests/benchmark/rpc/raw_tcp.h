// The reference of the bulk benchmark: bytes over one TCP connection on this machine, without
// framing or checks.
#pragma once

#include <cstdint>

#include "absl/types/span.h"
#include "tests/testing/tcp.h"

namespace longhaul {

// A listening socket on a free port of 127.0.0.1.
class RawTcpListener {
 public:
  RawTcpListener();
  ~RawTcpListener();
  RawTcpListener(const RawTcpListener&) = delete;
  int port() const { return listener_.port; }
  // Accepts one connection, reads `bytes` into the buffer, from its begin again when it is full,
  // answers with one byte. False: the connection ended before.
  bool ReceiveOver(absl::Span<uint8_t> buffer, int64_t bytes);

 private:
  const TcpListener listener_;
};

// Connects, sends `bytes` `times` times, waits for the answer.
bool SendRaw(int port, absl::Span<const uint8_t> bytes, int times);

}  // namespace longhaul

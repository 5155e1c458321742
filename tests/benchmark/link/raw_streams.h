// The reference of the WAN benchmark: bytes over several TCP connections that stay open, without
// framing or checks.
#pragma once

#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "absl/types/span.h"

namespace longhaul::benchmark {

// Takes what RawStreams sends, on a thread for each connection, for as long as the process lives.
class RawSink {
 public:
  // `host`: an IPv4 address of this machine.
  explicit RawSink(const std::string& host);
  int port() const { return port_; }

 private:
  int port_ = 0;
};

class RawStreams {
 public:
  RawStreams(const std::string& host, int port, int connections);
  ~RawStreams();
  // A part over each connection, at the same time; returns when all parts have arrived.
  void Send(absl::Span<const uint8_t> bytes);

 private:
  std::vector<int> connections_;
};

}  // namespace longhaul::benchmark

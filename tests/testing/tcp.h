// Plain TCP sockets for tests and benchmarks, over IPv4. The caller closes them. Thread-safe.
#pragma once

#include <cstdint>
#include <string>

#include "absl/types/span.h"

namespace longhaul {

inline constexpr char kLoopback[] = "127.0.0.1";

struct TcpListener {
  int socket = -1;
  int port = 0;
};
// Listens on a free port. The program ends if there is none.
TcpListener ListenTcp(int backlog, const std::string& host = kLoopback);

// -1 if nobody listens there.
int ConnectTcp(int port, const std::string& host = kLoopback);

// Blocks until all bytes were taken. Returns false if the connection ended before.
[[nodiscard]] bool SendAll(int connection, absl::Span<const uint8_t> bytes);

// The whole answer to a request, with headers. Empty if nobody listens.
std::string HttpAsk(int port, const std::string& method, const std::string& path,
                    const std::string& authorization = "", const std::string& host = "localhost");
// The whole answer to a GET, with headers. Empty if nobody listens.
std::string HttpGet(int port, const std::string& path, const std::string& authorization = "");

}  // namespace longhaul

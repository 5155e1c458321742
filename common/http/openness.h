// Decides whether a port of HTTP may listen at its address. Pure.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace longhaul {

struct HttpOpenness {
  // HOST:PORT from --http-listen. Empty: there is no such port.
  std::string listen;
  // Pages need a token (--tokens); probes do not.
  bool tokens = false;
  // It uses TLS (--http-tls).
  bool tls = false;
  // From --insecure.
  bool insecure = false;
  // What the port shows, for example "metrics".
  absl::string_view what;
};

// Returns what the log must say about the port, or an empty text. INVALID_ARGUMENT: a malformed
// address, or other machines could reach the port without a token, or a token could be read on its
// way to the port, and --insecure is not given.
absl::StatusOr<std::string> CheckHttpOpenness(const HttpOpenness& http);

}  // namespace longhaul

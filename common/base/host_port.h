// HOST:PORT, as flags and files name an address.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace longhaul {

struct HostPort {
  std::string host;  // Without the brackets of an IPv6 address.
  int port = 0;      // 0 to 65535.
};

// Of "host:port" or "[v6]:port". INVALID_ARGUMENT, in words: no port, one that is not a number from
// 0 to 65535, no host, an IPv6 address without brackets, characters that no host has.
absl::StatusOr<HostPort> ParseHostPort(absl::string_view text);
// The other way round: an IPv6 address gets its brackets.
std::string HostPortText(absl::string_view host, int port);
// Whether this host is reached from its own machine alone: localhost, 127.0.0.0/8, ::1. Names are
// not resolved.
bool IsLoopback(absl::string_view host);

}  // namespace longhaul

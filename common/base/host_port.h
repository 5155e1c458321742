// HOST:PORT, the form of addresses in flags and files.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace longhaul {

struct HostPort {
  // Without the brackets of an IPv6 address.
  std::string host;
  // 0 to 65535.
  int port = 0;
};

// Parses "host:port" or "[v6]:port". INVALID_ARGUMENT says what is wrong: no port, a port that is
// not a number from 0 to 65535, no host, an IPv6 address without brackets, or a character that
// hosts cannot have.
absl::StatusOr<HostPort> ParseHostPort(absl::string_view text);
// The text of an address. An IPv6 address gets its brackets.
std::string HostPortText(absl::string_view host, int port);
// Whether this host can be reached only from its own machine: localhost, 127.0.0.0/8, ::1. Names
// are not resolved.
bool IsLoopback(absl::string_view host);

}  // namespace longhaul

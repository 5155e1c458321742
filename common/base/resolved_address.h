// The addresses of the network that a host's name stands for.
#pragma once

#include <netdb.h>
#include <sys/socket.h>

#include <memory>

#include "absl/status/statusor.h"
#include "common/base/host_port.h"

namespace longhaul {

// A list, linked by ai_next. Never empty.
using ResolvedAddress = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

struct ResolveOptions {
  // Of getaddrinfo.
  int flags = 0;
  // Of the sockets that the addresses are for.
  int type = SOCK_STREAM;
};

// Resolves a name or a numeric address. Blocks while the resolver is asked. UNAVAILABLE, with the
// resolver's words alone: there is no such address, or the resolver does not answer.
absl::StatusOr<ResolvedAddress> Resolve(const HostPort& address, ResolveOptions options = {});

}  // namespace longhaul

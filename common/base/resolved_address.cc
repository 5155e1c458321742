#include "common/base/resolved_address.h"

#include <string>

#include "absl/status/status.h"

namespace longhaul {

absl::StatusOr<ResolvedAddress> Resolve(const HostPort& address, ResolveOptions options) {
  const addrinfo hints = {
      .ai_flags = options.flags, .ai_family = AF_UNSPEC, .ai_socktype = options.type};
  addrinfo* found = nullptr;
  const std::string port = std::to_string(address.port);
  const int error = getaddrinfo(address.host.c_str(), port.c_str(), &hints, &found);
  if (error != 0) return absl::UnavailableError(gai_strerror(error));
  return ResolvedAddress(found, freeaddrinfo);
}

}  // namespace longhaul

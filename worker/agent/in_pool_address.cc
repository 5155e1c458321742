#include "worker/agent/in_pool_address.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/host_port.h"
#include "common/base/resolved_address.h"
#include "common/base/status_macros.h"

namespace longhaul {
namespace {

// The numeric address without a port. Empty for another kind of address.
std::optional<std::string> TextOf(const sockaddr* address) {
  if (address == nullptr) return std::nullopt;
  char text[INET6_ADDRSTRLEN];
  const void* bytes = nullptr;
  if (address->sa_family == AF_INET)
    bytes = &reinterpret_cast<const sockaddr_in*>(address)->sin_addr;
  if (address->sa_family == AF_INET6)
    bytes = &reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr;
  if (bytes == nullptr || inet_ntop(address->sa_family, bytes, text, sizeof(text)) == nullptr)
    return std::nullopt;
  return text;
}

// All of 127.0.0.0/8 is this machine.
bool IsOfLoopback(const ifaddrs& interface, const std::string& address) {
  in_addr bytes;
  if ((interface.ifa_flags & IFF_LOOPBACK) == 0 || interface.ifa_addr == nullptr ||
      interface.ifa_addr->sa_family != AF_INET ||
      inet_pton(AF_INET, address.c_str(), &bytes) != 1) {
    return false;
  }
  const auto of = [](const sockaddr* value) {
    return reinterpret_cast<const sockaddr_in*>(value)->sin_addr.s_addr;
  };
  const uint32_t mask = of(interface.ifa_netmask);
  return (of(interface.ifa_addr) & mask) == (bytes.s_addr & mask);
}

// A datagram socket gets its own address when it is connected. This sends nothing.
absl::StatusOr<std::string> AddressTowards(const addrinfo& peer) {
  const int socket = ::socket(peer.ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (socket < 0) return absl::ErrnoToStatus(errno, "making a socket");
  const absl::Cleanup close = [socket] { ::close(socket); };
  sockaddr_storage own = {};
  socklen_t size = sizeof(own);
  if (connect(socket, peer.ai_addr, peer.ai_addrlen) != 0 ||
      getsockname(socket, reinterpret_cast<sockaddr*>(&own), &size) != 0) {
    return absl::ErrnoToStatus(errno, "looking for a route");
  }
  return TextOf(reinterpret_cast<const sockaddr*>(&own)).value_or("");
}

}  // namespace

absl::StatusOr<std::string> AddressTowards(absl::string_view address) {
  LH_ASSIGN_OR_RETURN(const HostPort peer, ParseHostPort(address));
  const absl::StatusOr<ResolvedAddress> found = Resolve(peer, {.type = SOCK_DGRAM});
  absl::Status failed = found.status();
  for (const addrinfo* next = found.ok() ? found->get() : nullptr; next != nullptr;
       next = next->ai_next) {
    absl::StatusOr<std::string> own = AddressTowards(*next);
    if (own.ok()) return own;
    failed = own.status();
  }
  return absl::UnavailableError(absl::StrCat(address, ": ", failed.message()));
}

absl::StatusOr<std::string> OuterAddress() {
  // Addresses for documents, which are behind the default route, if there is one.
  for (const char* const beyond : {"192.0.2.1:9", "[2001:db8::1]:9"}) {
    const absl::StatusOr<std::string> own = AddressTowards(beyond);
    if (own.ok() && !own->empty() && !IsLoopback(*own)) return own;
  }
  ifaddrs* interfaces = nullptr;
  if (getifaddrs(&interfaces) != 0) return absl::ErrnoToStatus(errno, "listing the interfaces");
  const absl::Cleanup free = [interfaces] { freeifaddrs(interfaces); };
  std::vector<std::string> of_ipv4, of_ipv6;
  for (const ifaddrs* next = interfaces; next != nullptr; next = next->ifa_next) {
    const std::string text = TextOf(next->ifa_addr).value_or("");
    const bool up = (next->ifa_flags & IFF_UP) != 0 && (next->ifa_flags & IFF_LOOPBACK) == 0;
    if (!up || text.empty() || absl::StartsWith(text, "169.254.") || absl::StartsWith(text, "fe80"))
      continue;
    (next->ifa_addr->sa_family == AF_INET ? of_ipv4 : of_ipv6).push_back(text);
  }
  const std::vector<std::string>& found = of_ipv4.empty() ? of_ipv6 : of_ipv4;
  if (found.size() == 1) return found[0];
  return absl::NotFoundError(found.empty() ? "this machine has no other address"
                                           : absl::StrCat("this machine has several addresses: ",
                                                          absl::StrJoin(found, ", ")));
}

absl::StatusOr<std::string> InterfaceOf(const std::string& address) {
  in6_addr bytes;
  if (inet_pton(AF_INET, address.c_str(), &bytes) != 1 &&
      inet_pton(AF_INET6, address.c_str(), &bytes) != 1) {
    return absl::InvalidArgumentError(absl::StrCat("'", address, "' is not a numeric address"));
  }
  ifaddrs* interfaces = nullptr;
  if (getifaddrs(&interfaces) != 0) return absl::ErrnoToStatus(errno, "listing the interfaces");
  const absl::Cleanup free = [interfaces] { freeifaddrs(interfaces); };
  for (const ifaddrs* next = interfaces; next != nullptr; next = next->ifa_next) {
    if (TextOf(next->ifa_addr) == address || IsOfLoopback(*next, address))
      return std::string(next->ifa_name);
  }
  return absl::NotFoundError(absl::StrCat(address, " is not an address of this machine"));
}

}  // namespace longhaul

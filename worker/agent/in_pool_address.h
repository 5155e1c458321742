// The numeric address of a network interface of this machine, with which the nodes of a pool reach
// each other. Reads the system's tables; thread-safe.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace longhaul {

// The address from which this machine talks to HOST:PORT. Only resolving the name sends anything;
// the call blocks for it. INVALID_ARGUMENT: not HOST:PORT. UNAVAILABLE: the name is not known, or
// there is no route.
absl::StatusOr<std::string> AddressTowards(absl::string_view address);

// The address of this machine that others reach: the one from which it reaches the internet, or, if
// there is no such route, the only IPv4 address (IPv6, if there is none) that is neither loopback
// nor link-local. Sends nothing. NOT_FOUND: there is none, or there are several.
absl::StatusOr<std::string> OuterAddress();

// The name of the network interface with this address. INVALID_ARGUMENT: the address is not
// numeric. NOT_FOUND: it does not belong to this machine.
absl::StatusOr<std::string> InterfaceOf(const std::string& address);

}  // namespace longhaul

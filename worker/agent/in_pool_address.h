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

// The name of the network interface with this address. INVALID_ARGUMENT: the address is not
// numeric. NOT_FOUND: it does not belong to this machine.
absl::StatusOr<std::string> InterfaceOf(const std::string& address);

}  // namespace longhaul

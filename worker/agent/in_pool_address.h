// Where the nodes of a pool reach each other: the numeric address of a network interface of this
// machine. Reads the system's tables; thread-safe.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace longhaul {

// The address from which this machine talks to HOST:PORT. Nothing is sent but what it takes to
// resolve the name, for which it blocks. INVALID_ARGUMENT: not HOST:PORT. UNAVAILABLE: the name is
// not known, or there is no route.
absl::StatusOr<std::string> AddressTowards(absl::string_view address);

// The name of the network interface that has this address. INVALID_ARGUMENT: it is not numeric.
// NOT_FOUND: it is not one of this machine.
absl::StatusOr<std::string> InterfaceOf(const std::string& address);

}  // namespace longhaul

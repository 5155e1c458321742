// Why a program could not listen at an address. The libraries that listen do not say it.
#pragma once

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "common/base/host_port.h"

namespace longhaul {

// UNAVAILABLE: says what the system answers when it is asked again, and what to do. Asks with a
// socket of its own, which is closed again.
absl::Status ListenFault(const HostPort& address);

}  // namespace longhaul

// How many of the cores that this process may use others are using now.
#pragma once

#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "worker/cores/host_cores.h"

namespace longhaul {

// The kernel counts in ticks of 10 ms, so this is long enough.
inline constexpr absl::Duration kBusyWindow = absl::Milliseconds(200);

// Measures how many of the host's cores were in use while `wait` ran, which returns after
// kBusyWindow. Reads /proc/stat: all time but idle time and waiting for input and output. The
// processors of a core count at most as one core. The result is rounded, and at most the number of
// cores. The time of this process, and of its children that it has waited for, does not count, so
// call it before the first rank starts. `root`: see ReadHostCores. NOT_FOUND: /proc/stat has no
// such lines.
absl::StatusOr<int> MeasureBusyCores(const HostCores& host, absl::FunctionRef<void()> wait,
                                     const std::string& root = "");

}  // namespace longhaul

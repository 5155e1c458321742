// How many of the cores that this process may use others are using now.
#pragma once

#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "worker/cores/host_cores.h"

namespace longhaul {

// Long enough: the kernel counts in ticks of 10 ms.
inline constexpr absl::Duration kBusyWindow = absl::Milliseconds(200);

// The cores' worth of time, rounded, that was used of the host's cores while `wait` ran (it returns
// after kBusyWindow): all of /proc/stat but idle time and waiting for input and output, on a core's processors
// together at most one core. What this process and those that it started and waited for used is left out:
// call it before the first rank starts. At most the number of cores.
// `root`: as ReadHostCores. NOT_FOUND: /proc/stat does not tell.
absl::StatusOr<int> MeasureBusyCores(const HostCores& host, absl::FunctionRef<void()> wait,
                                     const std::string& root = "");

}  // namespace longhaul

// Deadlines of what waits with std::chrono: gloo and NCCL.
#pragma once

#include <algorithm>
#include <chrono>

#include "absl/time/time.h"

namespace longhaul {

using SteadyDeadline = std::chrono::steady_clock::time_point;

// `timeout` from now. More than a year counts as a year, which keeps the sum in range.
inline SteadyDeadline SteadyDeadlineIn(absl::Duration timeout) {
  return std::chrono::steady_clock::now() +
         absl::ToChronoNanoseconds(std::min(timeout, absl::Hours(24 * 365)));
}

}  // namespace longhaul

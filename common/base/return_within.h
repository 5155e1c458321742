// How long the place of a pool that drained may be reserved: LeaveRequest.return_within.
#pragma once

#include "absl/time/time.h"

namespace longhaul {

inline constexpr absl::Duration kReturnWithinMax = absl::Hours(7 * 24);

}  // namespace longhaul

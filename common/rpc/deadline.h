// A deadline of gRPC from one of SteadyTime (common/base/clock.h). One of the wall clock would move
// when that is set, and absl::Now() tells up to two seconds late that it was.
#pragma once

#include "absl/time/time.h"
#include "common/base/clock.h"
#include "grpc/support/time.h"

namespace longhaul {

// For ClientContext, Alarm, WaitForStateChange and Shutdown. The infinite future is none.
inline gpr_timespec GrpcDeadline(absl::Time deadline) {
  const int64_t left = absl::ToInt64Nanoseconds(deadline - SteadyTime());
  return gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_nanos(left, GPR_TIMESPAN));
}

}  // namespace longhaul

// The messages of PoolService: their checks, and their conversion to and from the core's values.
// Pure.
#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "coordinator/effects/control_plane.h"
#include "coordinator/service/names.h"
#include "longhaul/v1/pool.pb.h"

namespace longhaul::coordinator {

// The longest text that a pool may say about itself, in bytes.
inline constexpr size_t kPoolTextBytesMax = 255;

// INVALID_ARGUMENT with BadRequest, or the refusal of a caller that is not this pool.
absl::Status CheckJoin(const PoolCaller& caller, const v1::JoinRequest& request);
absl::Status CheckHeartbeat(const PoolCaller& caller, const v1::HeartbeatRequest& request);
// How many of a heartbeat's evaluations are taken, from the first on. The pool repeats the others.
int EvaluationsTaken(const v1::HeartbeatRequest& request);
// Of those that are taken, in a job of `steps` inner steps. INVALID_ARGUMENT with BadRequest.
absl::Status CheckEvaluations(const v1::HeartbeatRequest& request, int64_t steps);

// The requests must have passed their checks.
JoinPool CommandOf(const v1::JoinRequest& request);
Heartbeat CommandOf(const v1::HeartbeatRequest& request);
LeavePool CommandOf(const v1::LeaveRequest& request);

void Fill(const NodePlace& place, absl::Time now, v1::NodePlace* message);

}  // namespace longhaul::coordinator

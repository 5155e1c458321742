// Contributions as they come: the header judged, the chunks taken into the job's log, the whole
// contribution told to the core; and what is here of one.
#pragma once

#include "absl/status/statusor.h"
#include "common/rpc/fragment_server.h"
#include "coordinator/service/runtime.h"
#include "longhaul/v1/sync.pb.h"

namespace longhaul::coordinator {

// The handler of one stream, with its counters. Blocks that are here already are left out.
// `runtime` outlives the stream.
//   before any chunk:
//   NOT_FOUND            JOB_UNKNOWN, FRAGMENT_UNKNOWN
//   INVALID_ARGUMENT     malformed names, kind, weight; CODEC_MISMATCH
//   FAILED_PRECONDITION, ABORTED   the core's refusals
//   UNAVAILABLE          the job's store is being made
//   later, besides the core's refusals:
//   INVALID_ARGUMENT     BAD_SEGMENT with fragment and block: NaN, Inf, padding, exponent
//   RESOURCE_EXHAUSTED   the disk is full (RetryInfo)
PushHandler MakePushHandler(Runtime* runtime);

// What is here of a contribution. A whole one is told to the core (again), so that `complete` says
// that it counts. Blocks until that is durable; not from the owner thread. Errors as before a push.
absl::StatusOr<v1::GetContributionResponse> FindContribution(
    Runtime& runtime, const v1::GetContributionRequest& request);

}  // namespace longhaul::coordinator

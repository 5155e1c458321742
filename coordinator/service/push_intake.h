// The way of a contribution's bytes: header judged, blocks verified, appended to the job's log,
// counted.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "common/rpc/coded_blocks.h"
#include "common/rpc/fragment_server.h"
#include "coordinator/service/runtime.h"
#include "longhaul/v1/sync.pb.h"

namespace longhaul::coordinator {

// Whether the stream may come, and what it may bring. Before anything is allocated; does not block.
//   NOT_FOUND            JOB_UNKNOWN, FRAGMENT_UNKNOWN
//   INVALID_ARGUMENT     malformed names, kind, weight; CODEC_MISMATCH
//   FAILED_PRECONDITION, ABORTED   the core's refusals
absl::StatusOr<StreamLimits> AcceptPush(Runtime& runtime, const v1::PushHeader& header);

// All blocks of the stream have come. Validates every segment, appends the shard to the log and,
// when it was the last, tells the core. Blocks that are here already are OK and are left out.
//   INVALID_ARGUMENT     BAD_SEGMENT with fragment and block: NaN, Inf, padding, exponent;
//   PARTLY_REPEATED: some of the
//                        blocks are here and some are not
//   UNAVAILABLE          another stream is bringing the same blocks now
//   FAILED_PRECONDITION  the round was closed meanwhile
//   RESOURCE_EXHAUSTED   the disk is full (RetryInfo)
absl::StatusOr<v1::PushResponse> TakePush(Runtime& runtime, const v1::PushHeader& header,
                                          CodedBlocks blocks);

// The handler of one stream, with its counters.
PushHandler MakePushHandler(Runtime* runtime);

}  // namespace longhaul::coordinator

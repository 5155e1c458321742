// What answers a pull: blocks of a downlink, or of the outer parameters, with the digest of what
// the puller must hold.
#pragma once

#include "absl/status/statusor.h"
#include "common/rpc/fragment_server.h"
#include "coordinator/service/runtime.h"
#include "longhaul/v1/sync.pb.h"

namespace longhaul::coordinator {

// Reads from the job's store; may block behind a round that is being applied. Errors: those of
// PullFragment in sync.proto.
absl::StatusOr<PullSource> ReadPull(Runtime& runtime, const v1::PullRequest& request);

// The handler of one stream, with its counters.
PullHandler MakePullHandler(Runtime* runtime);

}  // namespace longhaul::coordinator

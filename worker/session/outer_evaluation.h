// The outer parameters in the place of the live ones, for as long as an evaluation takes.
#pragma once

#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/replica/replica.h"
#include "worker/session/outer_fragment.h"

namespace longhaul::session {

// What each rank wrote of any unit becomes visible to all. Collective. Errors: the replica's.
absl::Status PublishAll(Replica& replica);

// Loss of the outer parameters; the live ones are as they were afterwards. Collective. Training thread. Errors:
// the replica's.
absl::StatusOr<EvalStats> EvaluateOuter(
    Replica& replica, const std::vector<std::unique_ptr<OuterFragment>>& fragments);

}  // namespace longhaul::session

// The outer parameters in the place of the live ones, for as long as something is done with them.
#pragma once

#include <memory>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "worker/replica/replica.h"
#include "worker/session/outer_fragment.h"

namespace longhaul::session {

// What each rank wrote of any unit becomes visible to all. Collective. Errors: the replica's.
absl::Status PublishAll(Replica& replica);

// Calls `work` while the replica has the outer parameters; the live ones are as they were afterwards.
// Collective. Training thread. Errors: the replica's, and those of `work`.
absl::Status WithOuterParameters(Replica& replica,
                                 const std::vector<std::unique_ptr<OuterFragment>>& fragments,
                                 absl::FunctionRef<absl::Status()> work);

}  // namespace longhaul::session

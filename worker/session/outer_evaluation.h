// Puts the outer parameters into the replica for the length of a call, and restores the live ones.
#pragma once

#include <memory>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "worker/replica/replica.h"
#include "worker/session/outer_fragment.h"

namespace longhaul::session {

// Publishes all units (Replica::Publish). Collective. Errors: those of the replica.
absl::Status PublishAll(Replica& replica);

// Calls `work` while the replica holds the outer parameters. Afterwards it holds the live ones
// again, bit for bit. Collective, on the training thread. Errors: those of the replica, and those
// of `work`.
absl::Status WithOuterParameters(Replica& replica,
                                 const std::vector<std::unique_ptr<OuterFragment>>& fragments,
                                 absl::FunctionRef<absl::Status()> work);

}  // namespace longhaul::session

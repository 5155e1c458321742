// The error feedback of a rank's contributions, as a part of the pool's inner state: by unit, with the
// version of each fragment at which it counts. It is put back where a fragment still has that version.
// With a later one this pool may have contributed since: then nothing is owed, as without saved state.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "worker/session/outer_fragment.h"
#include "worker/state/state_keeper.h"

namespace longhaul::session {

// `fragments` outlive the result. `versions`: those that are in effect, by fragment, when state is
// taken or put back.
StateBeside UplinkState(const std::vector<std::unique_ptr<OuterFragment>>& fragments,
                        std::function<std::vector<int64_t>()> versions);

}  // namespace longhaul::session

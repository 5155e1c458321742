// The error feedback of a rank's contributions, as a part of the pool's inner state: by unit, with
// the version of each fragment for which it is valid. It is restored for the fragments that still
// have that version. For a later version this pool may have contributed in between: then the error
// feedback begins at zero, as without saved state.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "worker/session/outer_fragment.h"
#include "worker/state/state_keeper.h"

namespace longhaul::session {

// `fragments` outlive the result. `versions` returns the versions in effect, by fragment; it is
// called when the state is taken or restored. The functions of the result may be called on the
// training thread.
StateBeside UplinkState(const std::vector<std::unique_ptr<OuterFragment>>& fragments,
                        std::function<std::vector<int64_t>()> versions);

}  // namespace longhaul::session

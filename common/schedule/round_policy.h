// Whose contributions a round waits for (SyncSpec.mode). Pure value.
#pragma once

#include "absl/time/time.h"

namespace longhaul {

struct RoundPolicy {
  // How many contributions call a round. 0: lockstep, which waits for every live pool.
  int quorum = 0;
  // How long a called round waits for the other live pools.
  absl::Duration grace = absl::ZeroDuration();

  bool lockstep() const { return quorum == 0; }
};

}  // namespace longhaul

// Which updates go on to change 1-bit Adam's variance after the freeze: the variance policy of 0/1 Adam
// (Lu et al., arXiv 2202.06009), whose k_(j+1) - k_j = 2^floor(j / scaler), from the freeze on. Pure.
#pragma once

#include <algorithm>
#include <cstdint>

namespace longhaul {

struct VarianceSchedule {
  int64_t frozen_at = 0;  // Updates before the freeze, above 0.
  int64_t scaler = 0;     // 0: none changes it.
  int64_t until = 0;      // Later updates do not. 0: there is no such end.

  // How many of updates 1 to `update` changed the variance, those before the freeze among them.
  int64_t Count(int64_t update) const {
    int64_t beyond = (until > 0 ? std::min(update, until) : update) - frozen_at;
    if (beyond <= 0) return std::min(update, frozen_at);
    if (scaler == 0) return frozen_at;
    int64_t count = frozen_at;
    for (int64_t interval = 1;; interval *= 2) {
      const int64_t updates = std::min(scaler, beyond / interval);
      count += updates;
      if (updates < scaler) return count;
      beyond -= updates * interval;
    }
  }
  bool Changes(int64_t update) const { return Count(update) > Count(update - 1); }
};

}  // namespace longhaul

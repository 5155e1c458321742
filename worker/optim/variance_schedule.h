// Which updates after the freeze still change the variance of 1-bit Adam: the variance policy of
// 0/1 Adam (Lu et al., arXiv 2202.06009). From the freeze on, the updates k_j that change it are
// k_(j+1) - k_j = 2^floor(j / scaler) apart. Pure.
#pragma once

#include <algorithm>
#include <cstdint>

namespace longhaul {

struct VarianceSchedule {
  // Updates before the freeze. Above 0.
  int64_t frozen_at = 0;
  // 0: no update after the freeze changes the variance.
  int64_t scaler = 0;
  // Later updates do not change it. 0: there is no such limit.
  int64_t until = 0;

  // How many of the updates 1 to `update` changed the variance, including those before the freeze.
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

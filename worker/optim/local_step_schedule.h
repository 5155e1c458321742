// Which updates are local steps, and after how many of them the ranks synchronise: the local-step policy
// of 0/1 Adam (Lu et al., arXiv 2202.06009; its set T_u). The interval between two synchronisations
// begins at 1 and doubles after every `scaler` updates, up to `clipper` (the paper's H; both are named
// as in DeepSpeed's ZeroOneAdam). Local steps begin where the variance is frozen for good. Pure.
#pragma once

#include <algorithm>
#include <cstdint>

namespace longhaul {

struct LocalStepSchedule {
  int64_t after = 0;    // Updates before the first local step.
  int64_t scaler = 0;   // 0: no step is local.
  int64_t clipper = 1;  // Above 0.

  bool Local(int64_t update) const { return scaler > 0 && update > after; }
  // So many local steps may follow each other, `update` being the last of them, before the ranks
  // synchronise. Of a local update.
  int64_t Interval(int64_t update) const {
    int64_t interval = 1;
    for (int64_t doublings = (update - after - 1) / scaler; doublings > 0; --doublings) {
      if (interval >= clipper) break;
      interval *= 2;
    }
    return std::min(interval, clipper);
  }
};

}  // namespace longhaul

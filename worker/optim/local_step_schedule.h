// Which updates are local steps, and after how many local steps the ranks synchronise: the
// local-step policy of 0/1 Adam (Lu et al., arXiv 2202.06009; its set T_u). The interval between
// two synchronisations is 1 at first. It doubles after every `scaler` updates, up to `clipper` (H
// in the paper; the names are those of DeepSpeed's ZeroOneAdam). Local steps begin once the
// variance is frozen for good. Pure.
#pragma once

#include <algorithm>
#include <cstdint>

namespace longhaul {

struct LocalStepSchedule {
  // Updates before the first local step.
  int64_t after = 0;
  // 0: no step is local.
  int64_t scaler = 0;
  // Above 0.
  int64_t clipper = 1;

  // Updates are counted from 1.
  bool Local(int64_t update) const { return scaler > 0 && update > after; }
  // The ranks synchronise after `update`, a local one, if it is at least the Interval-th local step
  // since they last did.
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

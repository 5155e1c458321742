// The inner learning rate at step t of T: a linear warm-up of W steps, then half a cosine
// (Loshchilov and Hutter, "SGDR", equation 5, without restarts). Pure value.
//   t <= W:  lr = peak t / W
//   t > W:   lr = peak (f + (1 - f) (1 + cos(pi (t - W) / (T - W))) / 2),  f: final_fraction
// A warm-up of all steps ends at the peak.
#pragma once

#include <cstdint>

namespace longhaul {

struct LearningRate {
  double peak = 1e-3;
  // T. Later steps have the rate of this one.
  int64_t steps = 1;
  // W.
  int64_t warmup_steps = 0;
  // The rate at step T, as a fraction of the peak, if W < T.
  double final_fraction = 0.05;

  // The rate at step t = `step`, 1-based.
  double At(int64_t step) const;
};

}  // namespace longhaul

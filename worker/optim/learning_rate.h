// The inner learning rate as a function of step t of T, with a warm-up of W steps: linear, then half a
// cosine (Loshchilov and Hutter, "SGDR", equation 5, without restarts). Pure value.
//   t < W:   lr = peak t / W
//   t >= W:  lr = peak (f + (1 - f) (1 + cos(pi (t - W) / (T - W))) / 2),  f: the final fraction
#pragma once

#include <cstdint>

namespace longhaul {

struct LearningRate {
  double peak = 1e-3;
  int64_t steps = 1;             // The last step; later ones get the final rate.
  int64_t warmup_steps = 0;      // Step t of them gets peak * t / warmup_steps.
  double final_fraction = 0.05;  // Of the peak, at the last step.

  // For step `step`, 1-based.
  double At(int64_t step) const;
};

}  // namespace longhaul

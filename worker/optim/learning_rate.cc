#include "worker/optim/learning_rate.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace longhaul {

double LearningRate::At(int64_t step) const {
  const int64_t t = std::min(step, steps);
  if (t < warmup_steps) return peak * static_cast<double>(t) / static_cast<double>(warmup_steps);
  if (t == warmup_steps) return peak;
  const double done =
      static_cast<double>(t - warmup_steps) / static_cast<double>(steps - warmup_steps);
  return peak *
         (final_fraction + (1 - final_fraction) * 0.5 * (1 + std::cos(std::numbers::pi * done)));
}

}  // namespace longhaul

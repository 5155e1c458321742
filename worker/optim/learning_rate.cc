#include "worker/optim/learning_rate.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace longhaul {

double LearningRate::At(int64_t step) const {
  if (step < warmup_steps)
    return peak * static_cast<double>(step) / static_cast<double>(warmup_steps);
  if (step >= steps) return peak * final_fraction;
  const double done =
      static_cast<double>(step - warmup_steps) / static_cast<double>(steps - warmup_steps);
  return peak *
         (final_fraction + (1 - final_fraction) * 0.5 * (1 + std::cos(std::numbers::pi * done)));
}

}  // namespace longhaul

// The constants of an update by AdamWKernel. Pure.
#pragma once

#include <cstdint>

#include "worker/kernels/adamw_kernel.h"
#include "worker/optim/adamw_options.h"
#include "worker/optim/optimizer.h"

namespace longhaul {

// For update `count` (1-based). `decay`: see SubgroupShape.
inline AdamWConstants MakeAdamWConstants(const AdamWOptions& options, const UpdateOptions& update,
                                         int64_t count, bool decay) {
  const AdamWStep step(options, update.learning_rate, count);
  const auto f = [](double value) { return static_cast<float>(value); };
  return {.gradient_scale = f(update.gradient_scale),
          .beta1 = f(options.beta1),
          .one_minus_beta1 = f(1 - options.beta1),
          .beta2 = f(options.beta2),
          .one_minus_beta2 = f(1 - options.beta2),
          .keep = decay ? f(step.keep) : 1,
          .step_size = f(step.step_size),
          .inverse_root = f(1 / step.root),
          .eps = f(options.eps),
          // Steps of the golden ratio.
          .noise = static_cast<uint32_t>(count) * 0x9e3779b9u};
}

}  // namespace longhaul

#include "tests/benchmark/optimizer/plain_adamw.h"

#include <cmath>

namespace longhaul::benchmark {

void PlainAdamW(const AdamWConstants& c, int64_t n, const float* gradients, float* parameters,
                float* moment, float* variance) {
  for (int64_t i = 0; i < n; ++i) {
    const float g = gradients[i] * c.gradient_scale;
    moment[i] = c.beta1 * moment[i] + c.one_minus_beta1 * g;
    variance[i] = c.beta2 * variance[i] + c.one_minus_beta2 * (g * g);
    const float denominator = std::sqrt(variance[i]) * c.inverse_root + c.eps;
    parameters[i] = c.keep * parameters[i] - c.step_size * (moment[i] / denominator);
  }
}

}  // namespace longhaul::benchmark

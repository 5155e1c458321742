// RMSNorm (Zhang and Sennrich, 2019, equation 4) of rows, in float32:
//   y = x r w ,  r = (mean(x^2) + eps)^(-1/2)
// x, y and their gradients are [rows, width]; weight (w) is [width]; inverse_rms (r) is [rows].
// Pure functions on the caller's thread and memory; thread-safe. Tests hold y to within 1e-5, and
// gradients to within 1e-4, of a double-precision reference, relative to max(1, |x|), for inputs in
// [-1, 1).
#pragma once

#include <cstdint>

namespace longhaul::kernels {

// Writes y and r. `y` may be `x`.
void RmsNormForward(const float* x, const float* weight, double eps, int64_t rows, int64_t width,
                    float* y, float* inverse_rms);

struct RmsNormGradients {
  // [rows, width], added to dx. Null: zeros.
  const float* residual = nullptr;
  // Overwritten. May be dy or the residual.
  float* dx = nullptr;
  // [width]. The gradient is added to it.
  float* dweight = nullptr;
  // Receives y of forward again. Null: the caller does not need it.
  float* y = nullptr;
};
// dx = r (w dy) - x r^3 mean(w dy x), dw = sum over rows of dy x r.
void RmsNormBackward(const float* dy, const float* x, const float* weight, const float* inverse_rms,
                     int64_t rows, int64_t width, const RmsNormGradients& gradients);

}  // namespace longhaul::kernels

// RMSNorm (Zhang and Sennrich, 2019) of rows, in float32, on the caller's thread:
// y = x r w with r = (mean(x^2) + eps)^(-1/2). Rows lie one after another.
#pragma once

#include <cstdint>

namespace longhaul::kernels {

// Writes r of each row besides. `y` may be `x`.
void RmsNormForward(const float* x, const float* weight, double eps, int64_t rows, int64_t width,
                    float* y, float* inverse_rms);

struct RmsNormGradients {
  const float* residual = nullptr;  // Is added to dx. Null: nothing.
  float* dx = nullptr;              // May be dy or the residual.
  float* dweight = nullptr;         // Is added to.
  float* y = nullptr;               // Gets what forward returned. Null: it is not wanted.
};
// dx = r (w dy) - x r^3 mean(w dy x), dw = sum over rows of dy x r.
void RmsNormBackward(const float* dy, const float* x, const float* weight, const float* inverse_rms,
                     int64_t rows, int64_t width, const RmsNormGradients& gradients);

}  // namespace longhaul::kernels

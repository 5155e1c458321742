// SwiGLU (Shazeer, "GLU variants improve transformer", equation 5): h = silu(gate) up, with
// silu(z) = z / (1 + exp(-z)). A row of gate_up [rows, 2 width] holds the gate, then up. h, dh:
// [rows, width]. float32. Pure functions on the caller's thread and memory; thread-safe. Tests hold
// the results to within 1e-5 max(1, |x|) of a double-precision reference, for inputs in [-1, 1).
#pragma once

#include <cstdint>

namespace longhaul::kernels {

// Writes h.
void SwiGluForward(const float* gate_up, int64_t rows, int64_t width, float* h);
// Writes the gradient dgate_up [rows, 2 width], and h again. `h` may be `dh`.
void SwiGluBackward(const float* dh, const float* gate_up, int64_t rows, int64_t width,
                    float* dgate_up, float* h);

}  // namespace longhaul::kernels

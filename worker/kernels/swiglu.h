// SwiGLU (Shazeer, "GLU variants improve transformer") of rows whose first half is the gate and whose
// second half is what it gates: h = silu(gate) up, silu(z) = z / (1 + exp(-z)). On the caller's
// thread.
#pragma once

#include <cstdint>

namespace longhaul::kernels {

// gate_up: [rows, 2 width], h: [rows, width].
void SwiGluForward(const float* gate_up, int64_t rows, int64_t width, float* h);
// Writes the gradient of gate_up, [rows, 2 width], and h again. `h` may be `dh`.
void SwiGluBackward(const float* dh, const float* gate_up, int64_t rows, int64_t width,
                    float* dgate_up, float* h);

}  // namespace longhaul::kernels

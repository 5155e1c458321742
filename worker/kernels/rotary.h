// Rotary position embedding (Su et al., "RoFormer", equation 34) in the "rotate half" convention:
// element i of a head and element i + width/2 are rotated together, by the angle of the position.
// In place, in float32. Pure functions on the caller's thread and memory; thread-safe.
#pragma once

#include <cstdint>

namespace longhaul::kernels {

// x: [heads, width], all at one position. cos and sin: [width / 2], for that position.
void Rotate(float* x, int64_t heads, int64_t width, const float* cos, const float* sin);
// Rotates by the opposite angle. It turns the gradient of the rotated x into the gradient of x.
void RotateBack(float* x, int64_t heads, int64_t width, const float* cos, const float* sin);

}  // namespace longhaul::kernels

// Rotary positions (Su et al., "RoFormer") in the "rotate half" convention: element i of a head turns
// with element i + width/2, by the angle of its position. In place, on the caller's thread.
#pragma once

#include <cstdint>

namespace longhaul::kernels {

// `heads` heads of `width` elements one after another, all at one position. cos and sin: width/2
// elements each, of that position.
void Rotate(float* x, int64_t heads, int64_t width, const float* cos, const float* sin);
// By the opposite angle: the gradient of x from that of the rotated x.
void RotateBack(float* x, int64_t heads, int64_t width, const float* cos, const float* sin);

}  // namespace longhaul::kernels

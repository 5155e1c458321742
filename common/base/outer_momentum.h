// The bound of the outer step's momentum. Who accepts a job and the job's store must agree on it.
#pragma once

namespace longhaul {

// In float32 it is still below 1, so the outer gradients of the past fade.
inline constexpr double kOuterMomentumMax = 1 - 0x1p-20;

}  // namespace longhaul

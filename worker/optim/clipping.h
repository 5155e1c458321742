// Clipping by the global norm (Pascanu et al., "On the difficulty of training recurrent neural
// networks", algorithm 1): g <- g min(1, clip_norm / ||g||).
#pragma once

namespace longhaul {

// What gradients of L2 norm `norm` are multiplied by so that it becomes at most `clip_norm`, as
// PyTorch's clip_grad_norm_ computes it. `clip_norm` <= 0: no clipping.
inline double ClipScale(double norm, double clip_norm) {
  if (clip_norm <= 0) return 1;
  const double scale = clip_norm / (norm + 1e-6);
  return scale < 1 ? scale : 1;
}

}  // namespace longhaul

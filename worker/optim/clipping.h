// Clipping by the global norm (Pascanu et al., "On the difficulty of training recurrent neural
// networks", algorithm 1): g <- g min(1, clip_norm / ||g||).
#pragma once

namespace longhaul {

// The factor for gradients of L2 norm `norm` that makes their norm at most `clip_norm`. As
// PyTorch's clip_grad_norm_, it adds 1e-6 to `norm`. `clip_norm` <= 0: no clipping, 1.
inline double ClipScale(double norm, double clip_norm) {
  if (clip_norm <= 0) return 1;
  const double scale = clip_norm / (norm + 1e-6);
  return scale < 1 ? scale : 1;
}

}  // namespace longhaul

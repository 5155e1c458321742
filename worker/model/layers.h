// The parts of a decoder block, differentiable by autograd, on any device. Dimensions: B sequences,
// T positions, D width, H query heads, K key and value heads, W head width, F width of the MLP, V
// vocabulary. Pure functions; thread-safe. Throw as torch does.
#pragma once

#include "ATen/core/Tensor.h"
#include "common/layout/model_layout.h"

namespace longhaul {

// RMSNorm (Zhang and Sennrich, 2019) over the last dimension, computed in float32, returned in x's
// precision. CUDA rounds the weight to x's precision first.
at::Tensor RmsNorm(const at::Tensor& x, const at::Tensor& weight, double eps);

// Rotary position embedding (Su et al., "RoFormer", equation 34) in the "rotate half" convention of
// Hugging Face Llama: element i of a head and element i + W/2 are rotated together.
struct RotaryTables {
  at::Tensor cos_TW, sin_TW;
  // The sine that multiplies an element's partner: negative in the first half.
  at::Tensor swapped_sin_TW;
};
RotaryTables MakeRotaryTables(int64_t positions, int64_t width, double theta,
                              const RopeScaling& scaling, at::Device device);
RotaryTables InPrecision(const RotaryTables& tables, at::ScalarType precision);
// The positions of x are first, first + 1, ... Tables in x's precision cost no conversion.
at::Tensor Rotate(const at::Tensor& x_BHTW, const RotaryTables& tables, int64_t first = 0);

// The mask that is added to scores, [B, 1, T, T]: 0 where a position may attend (from the beginning
// of its document to itself), else minus infinity. `precision`: that of q. Memory: B T^2 elements.
at::Tensor DocumentMask(const at::Tensor& starts_BT, at::ScalarType precision);

// Causal attention; each key and value head serves H / K query heads. Returns [B, T, H * W].
// `mask`: DocumentMask; undefined: a sequence is one document.
at::Tensor CausalAttention(const at::Tensor& q_BHTW, const at::Tensor& k_BKTW,
                           const at::Tensor& v_BKTW, const at::Tensor& mask_B1TT = {});

// silu(x gate^T) * (x up^T), back through down (Shazeer, "GLU variants improve transformer").
at::Tensor SwiGlu(const at::Tensor& x_BTD, const at::Tensor& gate_FD, const at::Tensor& up_FD,
                  const at::Tensor& down_DF);

// The sum of the cross-entropy of float32 logits over the targets that `mask` (bool) counts, in
// nats. The others have no gradient. Undefined: all count.
at::Tensor CrossEntropySum(const at::Tensor& logits_BTV, const at::Tensor& targets_BT,
                           const at::Tensor& mask_BT = {});

}  // namespace longhaul

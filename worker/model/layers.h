// The pieces of a decoder block, differentiable by autograd, on any device. Dimensions: B
// sequences, T positions, D width, H query heads, K key and value heads, W head width, F width
// inside the MLP.
#pragma once

#include "ATen/core/Tensor.h"
#include "common/layout/model_layout.h"

namespace longhaul {

// RMSNorm (Zhang and Sennrich, 2019) over the last dimension, computed in float32, returned in x's
// precision.
at::Tensor RmsNorm(const at::Tensor& x, const at::Tensor& weight, double eps);

// Rotary positions (Su et al., "RoFormer") in the "rotate half" convention of Hugging Face Llama:
// element i of a head is rotated with element i + W/2.
struct RotaryTables {
  at::Tensor cos_TW, sin_TW;
};
RotaryTables MakeRotaryTables(int64_t positions, int64_t width, double theta,
                              const RopeScaling& scaling, at::Device device);
// x's positions are those from `first` on.
at::Tensor Rotate(const at::Tensor& x_BHTW, const RotaryTables& tables, int64_t first = 0);

// What is added to scores so that a position sees those from its document's first one to itself: 0, or
// minus infinity. In the precision of q. Memory: B T^2.
at::Tensor DocumentMask(const at::Tensor& starts_BT, at::ScalarType precision);

// Causal attention; each key and value head serves H / K query heads. Returns [B, T, H * W]. `mask`:
// DocumentMask; undefined: a sequence is one document.
at::Tensor CausalAttention(const at::Tensor& q_BHTW, const at::Tensor& k_BKTW,
                           const at::Tensor& v_BKTW, const at::Tensor& mask_B1TT = {});

// silu(x gate^T) * (x up^T), back through down (Shazeer, "GLU variants improve transformer").
at::Tensor SwiGlu(const at::Tensor& x_BTD, const at::Tensor& gate_FD, const at::Tensor& up_FD,
                  const at::Tensor& down_DF);

// Sum of the cross-entropy of float32 logits over all tokens.
at::Tensor CrossEntropySum(const at::Tensor& logits_BTV, const at::Tensor& targets_BT);

}  // namespace longhaul

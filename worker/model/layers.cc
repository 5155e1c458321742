#include "worker/model/layers.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <optional>
#include <tuple>

#include "ATen/TensorOperators.h"
#include "ATen/ops/_fused_rms_norm.h"
#include "ATen/ops/arange.h"
#include "ATen/ops/cat.h"
#include "ATen/ops/cross_entropy_loss.h"
#include "ATen/ops/empty.h"
#include "ATen/ops/linear.h"
#include "ATen/ops/outer.h"
#include "ATen/ops/pow.h"
#include "ATen/ops/rsqrt.h"
#include "ATen/ops/scaled_dot_product_attention.h"
#include "ATen/ops/silu.h"
#include "ATen/ops/zeros.h"
#include "c10/core/TensorOptions.h"

namespace longhaul {
namespace {

// In place of a target that does not count.
constexpr int64_t kIgnoredTarget = -100;

at::Tensor SwapHalves(const at::Tensor& x) {
  const auto halves = x.chunk(2, -1);
  return at::cat({halves[1], halves[0]}, -1);
}

// [B, K, T, W] -> [B, heads, T, W]: each head repeated in place.
at::Tensor RepeatHeads(const at::Tensor& x_BKTW, int64_t heads) {
  const auto sizes = x_BKTW.sizes();
  if (sizes[1] == heads) return x_BKTW;
  return x_BKTW.unsqueeze(2)
      .expand({sizes[0], sizes[1], heads / sizes[1], sizes[2], sizes[3]})
      .reshape({sizes[0], heads, sizes[2], sizes[3]});
}

// Scales the angle per position of a pair of elements for long contexts. kLinear divides all
// angles. Llama 3's rule divides those of long wavelengths, keeps those of short ones, and
// interpolates in between.
double Scaled(double turn, const RopeScaling& scaling) {
  if (scaling.kind == RopeScaling::Kind::kNone) return turn;
  const double slow = turn / scaling.factor;
  if (scaling.kind == RopeScaling::Kind::kLinear) return slow;
  const double wavelengths =
      static_cast<double>(scaling.original_context) * turn / (2 * std::numbers::pi);
  const double kept = std::clamp((wavelengths - scaling.low_freq_factor) /
                                     (scaling.high_freq_factor - scaling.low_freq_factor),
                                 0.0, 1.0);
  return (1 - kept) * slow + kept * turn;
}

}  // namespace

at::Tensor RmsNorm(const at::Tensor& x, const at::Tensor& weight, double eps) {
  // One kernel instead of some eight passes over memory. It takes weights in x's precision.
  if (x.is_cuda()) {
    return std::get<0>(at::_fused_rms_norm(x, {x.size(-1)}, weight.to(x.scalar_type()), eps));
  }
  const at::Tensor wide = x.to(at::kFloat);
  const at::Tensor scale = at::rsqrt(wide.pow(2).mean(-1, /*keepdim=*/true) + eps);
  return (wide * scale * weight).to(x.scalar_type());
}

RotaryTables MakeRotaryTables(int64_t positions, int64_t width, double theta,
                              const RopeScaling& scaling, at::Device device) {
  const auto doubles = c10::TensorOptions().dtype(at::kDouble);
  // Radians per position.
  at::Tensor turns = at::empty({width / 2}, doubles);
  for (int64_t i = 0; i < width / 2; ++i) {
    const double exponent = static_cast<double>(2 * i) / static_cast<double>(width);
    turns.data_ptr<double>()[i] = Scaled(std::pow(theta, -exponent), scaling);
  }
  const at::Tensor angles = at::outer(at::arange(positions, doubles), turns);
  const at::Tensor both = at::cat({angles, angles}, -1);
  const at::Tensor sin = both.sin().to(device, at::kFloat);
  const auto halves = sin.chunk(2, -1);
  return {both.cos().to(device, at::kFloat), sin, at::cat({-halves[0], halves[1]}, -1)};
}

RotaryTables InPrecision(const RotaryTables& tables, at::ScalarType precision) {
  return {tables.cos_TW.to(precision), tables.sin_TW.to(precision),
          tables.swapped_sin_TW.to(precision)};
}

at::Tensor Rotate(const at::Tensor& x_BHTW, const RotaryTables& tables, int64_t first) {
  const int64_t positions = x_BHTW.size(2);
  const at::Tensor cos = tables.cos_TW.narrow(0, first, positions).to(x_BHTW.scalar_type());
  const at::Tensor sin = tables.swapped_sin_TW.narrow(0, first, positions).to(x_BHTW.scalar_type());
  return x_BHTW * cos + SwapHalves(x_BHTW) * sin;
}

at::Tensor DocumentMask(const at::Tensor& starts_BT, at::ScalarType precision) {
  const int64_t positions = starts_BT.size(1);
  const at::Tensor at_T = at::arange(positions, starts_BT.options());
  const at::Tensor hidden_BTT =
      at_T.lt(starts_BT.unsqueeze(2)).logical_or(at_T.gt(at_T.unsqueeze(1)));
  return at::zeros({starts_BT.size(0), 1, positions, positions},
                   starts_BT.options().dtype(precision))
      .masked_fill_(hidden_BTT.unsqueeze(1), -INFINITY);
}

at::Tensor CausalAttention(const at::Tensor& q_BHTW, const at::Tensor& k_BKTW,
                           const at::Tensor& v_BKTW, const at::Tensor& mask_B1TT) {
  const int64_t heads = q_BHTW.size(1);
  const std::optional<at::Tensor> mask =
      mask_B1TT.defined() ? std::optional(mask_B1TT) : std::nullopt;
  // Of torch's CUDA kernels only flash attention reads a key's head for several query heads. It
  // takes bfloat16 and no mask; with others, torch would compute all scores.
  const bool reads_groups =
      q_BHTW.is_cuda() && q_BHTW.scalar_type() == at::kBFloat16 && !mask.has_value();
  const auto of_query_heads = [&](const at::Tensor& x_BKTW) {
    return reads_groups ? x_BKTW : RepeatHeads(x_BKTW, heads);
  };
  const at::Tensor out_BHTW = at::scaled_dot_product_attention(
      q_BHTW, of_query_heads(k_BKTW), of_query_heads(v_BKTW), mask, /*dropout_p=*/0.0,
      /*is_causal=*/!mask.has_value(), /*scale=*/std::nullopt, /*enable_gqa=*/reads_groups);
  return out_BHTW.transpose(1, 2).reshape({q_BHTW.size(0), q_BHTW.size(2), heads * q_BHTW.size(3)});
}

at::Tensor SwiGlu(const at::Tensor& x_BTD, const at::Tensor& gate_FD, const at::Tensor& up_FD,
                  const at::Tensor& down_DF) {
  return at::linear(at::silu(at::linear(x_BTD, gate_FD)) * at::linear(x_BTD, up_FD), down_DF);
}

at::Tensor CrossEntropySum(const at::Tensor& logits_BTV, const at::Tensor& targets_BT,
                           const at::Tensor& mask_BT) {
  at::Tensor targets_N = targets_BT.flatten();
  if (mask_BT.defined())
    targets_N = targets_N.masked_fill(mask_BT.flatten().logical_not(), kIgnoredTarget);
  return at::cross_entropy_loss(logits_BTV.flatten(0, 1), targets_N, /*weight=*/{},
                                at::Reduction::Sum, kIgnoredTarget);
}

}  // namespace longhaul

// Settings of AdamW (Loshchilov and Hutter, "Decoupled weight decay regularization", Algorithm 2)
// and what a step derives from them. Pure values.
#pragma once

#include <cmath>
#include <cstdint>

namespace longhaul {

// How the moments are kept.
enum class MomentPrecision { kFloat32, kBfloat16 };
// The bytes of one element of a moment.
constexpr int64_t MomentBytes(MomentPrecision moments) {
  return moments == MomentPrecision::kFloat32 ? 4 : 2;
}

struct AdamWOptions {
  double beta1 = 0.9, beta2 = 0.99, eps = 1e-8;
  // lambda of Algorithm 2, for subgroups with decay. A step multiplies it by the learning rate.
  double weight_decay = 0;
  // AdamW in host memory supports kBfloat16; the others do not.
  MomentPrecision moments = MomentPrecision::kFloat32;
};

// Constants of update t = `count` (1-based), computed in double in the order of PyTorch's AdamW.
// With
//   keep = 1 - lr decay ;  step_size = lr / (1 - beta1^t) ;  root = sqrt(1 - beta2^t)
// line 12 of the algorithm, its m_hat and v_hat (lines 9 and 10) written out, is
//   theta = keep theta - step_size m / (sqrt(v) / root + eps)
struct AdamWStep {
  AdamWStep(const AdamWOptions& options, double learning_rate, int64_t count)
      : keep(1 - learning_rate * options.weight_decay),
        step_size(learning_rate / (1 - std::pow(options.beta1, static_cast<double>(count)))),
        root(std::sqrt(1 - std::pow(options.beta2, static_cast<double>(count)))) {}
  double keep, step_size, root;
};

}  // namespace longhaul

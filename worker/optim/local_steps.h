// The local steps of 0/1 Adam (Lu et al., "Maximizing communication efficiency for large-scale training
// via 0/1 Adam", arXiv 2202.06009, algorithm 1), in host memory. Between two synchronisations a rank
// steps by its own gradients, and adds up what it stepped:
//
//   m = beta1 m + (1 - beta1) g         the caller
//   x = keep x - gamma m / d            d = sqrt(v) / sqrt(1 - beta2^F) + eps, v frozen (FrozenScale)
//   u = keep u + gamma m ;  s = keep s + gamma
//
// When the ranks synchronise, x' being the parameters after the synchronisation before:
//
//   ubar = the compressed mean of u     the caller
//   m = ubar / s ;  x = K x' - ubar / d ;  u = 0, s = 0        K: the product of keep since then
//
// gamma = lr / (1 - beta1^t) and keep = 1 - lr decay are AdamW's (AdamWStep). The paper has no decay.
// Here u and s decay as x does, so that x = K x' - u / d holds at any time but for rounding. x' is kept.
// Computed back from x, as DeepSpeed does, it would differ between the ranks by rounding; so ranks
// become equal bit for bit.
//
// Takes 8 bytes an element, from the first local step on. Used from one thread, but Step and
// Synchronize of different elements from any.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "worker/optim/huge_pages.h"
#include "worker/optim/optimizer.h"

namespace longhaul {

// Divides by d. An element without variance never had a gradient, so there is no scale to step by: 0.
struct FrozenScale {
  absl::Span<const float> variance;
  float inverse_root = 1, eps = 0;

  float Of(float momentum, int64_t element) const {
    const float v = variance[element];
    return v > 0 ? momentum / (std::sqrt(v) * inverse_root + eps) : 0;
  }
};

// Elements [first, end) of a subgroup.
struct LocalPart {
  int subgroup = 0;
  int64_t first = 0, end = 0;
};

class LocalSteps {
 public:
  explicit LocalSteps(absl::Span<const SubgroupShape> subgroups);

  // Steps since the last synchronisation. 0: the ranks hold the same parameters and momentum.
  int64_t taken() const { return taken_; }
  // Before a step of all subgroups. `keep`: of those with decay.
  void Begin(float gamma, float keep);
  // Spans are of the whole subgroup.
  void Step(const LocalPart& part, const FrozenScale& scale, absl::Span<const float> moment,
            absl::Span<float> parameters);

  // u: this rank's own.
  absl::Span<const float> accumulated(int subgroup) const { return subgroups_[subgroup].steps; }
  // `mean`: ubar. Where every rate since the last synchronisation was zero, so is the momentum.
  void Synchronize(const LocalPart& part, const FrozenScale& scale, absl::Span<const float> mean,
                   absl::Span<float> moment, absl::Span<float> parameters) const;
  // After Synchronize of all subgroups; or to forget the steps since the last one.
  void End();

  int64_t state_bytes() const;

 private:
  struct Subgroup {
    SubgroupShape shape;
    HugePageVector<float> before;  // x'
    HugePageVector<float> steps;   // u
  };
  // Of subgroups with decay, or of the others.
  struct Sums {
    float gamma = 0, keep = 1;   // Of the step under way.
    double kept = 1, rates = 0;  // K and s.
  };

  std::vector<Subgroup> subgroups_;
  Sums sums_[2];  // By SubgroupShape::decay.
  int64_t taken_ = 0;
};

}  // namespace longhaul

// The local steps of 0/1 Adam (Lu et al., "Maximizing communication efficiency for large-scale
// training via 0/1 Adam", arXiv 2202.06009, algorithm 1), in host memory. Between two
// synchronisations each rank steps by its own gradients, and accumulates its steps in u:
//
//   m = beta1 m + (1 - beta1) g         the caller
//   x = keep x - gamma m / d            d = sqrt(v) / sqrt(1 - beta2^F) + eps, v frozen
//                                       (FrozenScale)
//   u = keep u + gamma m ;  s = keep s + gamma
//
// When the ranks synchronise, with x' the parameters after the previous synchronisation:
//
//   ubar = the compressed mean of u     the caller
//   m = ubar / s ;  x = K x' - ubar / d ;  u = 0, s = 0        K: the product of keep since x'
//
// gamma = lr / (1 - beta1^t) and keep = 1 - lr decay are those of AdamW (AdamWStep). The paper has
// no weight decay. Here u and s decay as x does, so that x = K x' - u / d holds at any time, up to
// rounding. The object keeps x'. DeepSpeed computes it back from x, which differs between ranks by
// rounding. With a kept x' the ranks become equal bit for bit.
//
// Memory: 8 bytes an element, from the first local step on. Called from one thread; only Step and
// Synchronize may run on several threads, for different elements.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "common/base/huge_pages.h"
#include "worker/optim/optimizer.h"

namespace longhaul {

// Divides by d. An element whose variance is zero never had a gradient, so no scale is known: its
// step is 0.
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

  // Steps since the last synchronisation. 0: all ranks hold the same parameters and momentum.
  int64_t taken() const { return taken_; }
  // Call before Step of all subgroups. `keep` is for subgroups with decay; the others have 1.
  void Begin(float gamma, float keep);
  // Spans cover the whole subgroup.
  void Step(const LocalPart& part, const FrozenScale& scale, absl::Span<const float> moment,
            absl::Span<float> parameters);

  // u of this rank.
  absl::Span<const float> accumulated(int subgroup) const { return subgroups_[subgroup].steps; }
  // `mean` is ubar. If s is 0, because every learning rate was 0, the momentum becomes 0.
  void Synchronize(const LocalPart& part, const FrozenScale& scale, absl::Span<const float> mean,
                   absl::Span<float> moment, absl::Span<float> parameters) const;
  // Call after Synchronize of all subgroups, or to forget the steps since the last synchronisation.
  void End();

  int64_t state_bytes() const;

 private:
  struct Subgroup {
    SubgroupShape shape;
    // x'
    HugePageVector<float> before;
    // u
    HugePageVector<float> steps;
  };
  // The same for all subgroups with decay, and for all without.
  struct Sums {
    // For the current step.
    float gamma = 0, keep = 1;
    // K and s.
    double kept = 1, rates = 0;
  };

  std::vector<Subgroup> subgroups_;
  // Indexed by SubgroupShape::decay.
  Sums sums_[2];
  int64_t taken_ = 0;
};

}  // namespace longhaul

// Updates parameters from gradients. The parameters are given as runs: contiguous pieces that share
// one weight-decay setting; the optimizer keeps its own state for each run and knows nothing of
// models, ranks or shards.
//
// Implementations: AdamW (fused, SIMD), TorchAdamW (worker/engine: any device). ReferenceAdamW has
// the paper's lines, for tests. Used from one thread. Does not block. All of them agree within 1e-6
// relative.
#pragma once

#include <cstdint>

#include "absl/types/span.h"

namespace longhaul {

struct OptimizerRun {
  int64_t elements = 0;
  bool decay = false;  // Weight decay applies.
};

struct UpdateOptions {
  double learning_rate = 0;
  double gradient_scale = 1;  // Gradients are multiplied by it first (clipping).
};

enum class Moment { kFirst, kSecond };  // Of the gradient: its mean, that of its square.

class Optimizer {
 public:
  virtual ~Optimizer() = default;
  // Begins an update: the ones that follow, of each run at most once, belong to it.
  virtual void Begin(const UpdateOptions& options) = 0;
  // Updates run `run` in place. Both spans have its number of elements; they lie where the
  // implementation works (host or device memory).
  virtual void Update(int run, absl::Span<float> parameters, absl::Span<const float> gradients) = 0;

  // What it remembers, to be saved and put back: for each element of a run its moments, where the
  // implementation works, and how many updates were begun. Between two updates.
  virtual absl::Span<float> Moments(Moment moment, int run) = 0;
  virtual int64_t updates() const = 0;
  virtual void SetUpdates(int64_t updates) = 0;
};

}  // namespace longhaul

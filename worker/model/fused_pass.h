// Forward and backward of a model's units written by hand, beside Model::Forward, which autograd
// differentiates and which is the reference. A pass keeps activations and scratch in memory of its
// own, which grows with the largest batch seen and is not given back, so that steps after the first
// allocate nothing. It keeps no weights: they are given for each use, and may lie elsewhere in
// backward than in forward.
//
// Order: Begin; Forward of every unit; then, if gradients are wanted, Backward of every unit in
// reverse. An abandoned pass is begun anew.
//
// Used from one thread; works on all threads of at::parallel_for. Results do not depend on how many
// there are. Throws c10::Error as torch does. CPU only.
#pragma once

#include <cstdint>

#include "worker/model/model.h"

namespace longhaul {

// Contiguous float32 memory of a tensor's gradient.
struct GradientPlace {
  float* data = nullptr;
  bool add = false;  // To what it has; else it is overwritten.
};

class GradientPlaces {
 public:
  virtual ~GradientPlaces() = default;
  // For the next contribution to a tensor's gradient, which the caller makes at once.
  virtual GradientPlace Place(TensorRef tensor) = 0;
};

class FusedPass {
 public:
  enum class Keep {
    kActivations,  // For backward.
    kInputs,       // Of units; backward runs forward again.
    kNothing       // There is no backward.
  };
  struct Options {
    Keep keep = Keep::kNothing;
    double scale = 1;  // Of the loss whose gradient is taken.
  };

  virtual ~FusedPass() = default;
  // The batch is read here and not kept.
  virtual void Begin(const Batch& batch, const Options& options) = 0;
  // Weights as for Model::Forward.
  virtual void Forward(int unit, absl::Span<const at::Tensor> weights) = 0;
  // Sum over the batch's tokens, after the last unit's forward.
  virtual double loss_sum() const = 0;
  virtual void Backward(int unit, absl::Span<const at::Tensor> weights,
                        GradientPlaces& gradients) = 0;
  // Of memory that it holds.
  virtual int64_t bytes() const = 0;
};

}  // namespace longhaul

// Forward and backward of a model's units in hand-written kernels. The reference is Model::Forward,
// which autograd differentiates. A pass owns memory for activations and scratch. It grows with the
// largest batch and is not freed, so steps after the first allocate nothing. A pass keeps no
// weights: the caller gives them for each use, and they may have moved between forward and
// backward.
//
// Order: Begin; Forward of every unit; then, if gradients are needed, Backward of every unit in
// reverse. After an unfinished pass, Begin starts the next one.
//
// Called from one thread; computes on all threads of at::parallel_for. The results do not depend on
// their number. Throws c10::Error as torch does. CPU only.
#pragma once

#include <cstdint>

#include "worker/model/model.h"

namespace longhaul {

// Contiguous float32 memory for a tensor's gradient.
struct GradientSlot {
  float* data = nullptr;
  // Add the gradient to the content. False: overwrite it.
  bool add = false;
};

class GradientSlots {
 public:
  virtual ~GradientSlots() = default;
  // The slot for the next contribution to a tensor's gradient. The caller writes it before the
  // next call.
  virtual GradientSlot Slot(TensorRef tensor) = 0;
};

class FusedPass {
 public:
  enum class Keep {
    // All activations, for backward.
    kActivations,
    // The units' inputs. Backward runs forward again.
    kInputs,
    // Nothing: there is no backward.
    kNothing
  };
  struct Options {
    Keep keep = Keep::kNothing;
    // A factor of the loss whose gradient is computed.
    double scale = 1;
  };

  virtual ~FusedPass() = default;
  // Reads the batch and does not keep it.
  virtual void Begin(const StagedBatch& batch, const Options& options) = 0;
  // Weights as for Model::Forward.
  virtual void Forward(int unit, absl::Span<const at::Tensor> weights) = 0;
  // The sums of Model::metrics(). Valid after the last unit's Forward, and in a pass with backward
  // after its Backward, until the next Begin.
  virtual absl::Span<const double> sums() const = 0;
  virtual void Backward(int unit, absl::Span<const at::Tensor> weights,
                        GradientSlots& gradients) = 0;
  // The memory that the pass owns.
  virtual int64_t bytes() const = 0;
};

}  // namespace longhaul

// Forward and backward through a model unit by unit, without hooks: backward walks the units in
// reverse. So a unit's weights, activations and gradients are needed only at known times, on which
// sharding and overlapped reduction depend. Called from the thread that computes.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "ATen/core/Tensor.h"
#include "absl/status/statusor.h"
#include "worker/engine/flat_gradients.h"
#include "worker/engine/weight_stream.h"
#include "worker/model/fused_pass.h"
#include "worker/model/model.h"

namespace longhaul {

// The uses for a WeightStream. Training: every unit forward, then every unit backward in reverse.
// Evaluation: every unit forward.
std::vector<UnitUse> TrainingUses(const Model& model);
std::vector<UnitUse> EvaluationUses(const Model& model);

// Called when a unit's gradient is complete on this rank, last unit first.
using UnitGradientReady = std::function<absl::Status(int unit)>;

struct PassOptions {
  // A factor of the loss whose gradient is computed.
  double scale = 1;
  // Keep only the inputs of units, and run forward again in backward.
  bool recompute = false;
  // Receives a span for each unit's forward and backward. May be null.
  Trace* trace = nullptr;
  // Computes the units. Null: autograd does.
  FusedPass* fused = nullptr;
};

// The sum of a loss over targets.
struct PassLoss {
  // The part that is known in host memory.
  double on_host = 0;
  // A scalar on a device with the rest. Undefined: there is none.
  at::Tensor on_device;

  // Waits for the device.
  double Total() const { return on_host + (on_device.defined() ? on_device.item<double>() : 0); }
};
// `sum`: a float32 scalar. Undefined: 0.
PassLoss LossOf(const at::Tensor& sum);

// Returns the sum of the loss over the targets that the batch counts, in nats. Adds the gradient of
// that sum times the scale to `gradients`. Without a batch this rank takes part in the gathers,
// adds nothing, and returns 0. Blocks as `weights` does. Errors: those of `weights` and `ready`.
// Throws as torch does.
absl::StatusOr<PassLoss> ForwardBackward(const Model& model, const std::optional<Batch>& batch,
                                         const PassOptions& options, WeightStream& weights,
                                         FlatGradients& gradients, const UnitGradientReady& ready);

// The same sum without gradients.
absl::StatusOr<PassLoss> ForwardOnly(const Model& model, const std::optional<Batch>& batch,
                                     WeightStream& weights, FusedPass* fused = nullptr);

}  // namespace longhaul

// Forward and backward through a model unit by unit, with no hooks: each unit's output is cut off
// from the graph and becomes the next one's input, and backward walks the units in reverse. A
// unit's weights, activations and gradients are thus needed at known moments only, which is what
// sharding and overlapped reduction rest on.
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

// The uses of a stream of weights: every unit forward, then every unit backward in reverse; or
// forward alone.
std::vector<UnitUse> TrainingUses(const Model& model);
std::vector<UnitUse> EvaluationUses(const Model& model);

// Called when a unit's gradient is complete on this rank, last unit first.
using UnitGradientReady = std::function<absl::Status(int unit)>;

struct PassOptions {
  double scale = 1;            // Of the loss whose gradient is taken.
  bool recompute = false;      // Keep only the inputs of units, and run forward again for backward.
  Trace* trace = nullptr;      // Gets a span for each unit's forward and backward.
  FusedPass* fused = nullptr;  // Does the computing. Null: autograd does.
};

// The sum of a loss over tokens.
struct PassLoss {
  double on_host = 0;    // What host memory has of it,
  at::Tensor on_device;  // and a device, which is not waited for: a scalar. Undefined: none.

  // Waits for the device.
  double Total() const { return on_host + (on_device.defined() ? on_device.item<double>() : 0); }
};

// Returns the sum over the batch's tokens. `gradients` receive the gradient of that sum times the scale.
// Without a batch this rank takes part in the gathers, adds nothing, and returns 0. Fails only as
// `weights` and `ready` do. Throws as torch does.
absl::StatusOr<PassLoss> ForwardBackward(const Model& model, const std::optional<Batch>& batch,
                                         const PassOptions& options, WeightStream& weights,
                                         FlatGradients& gradients, const UnitGradientReady& ready);

// The same sum without gradients.
absl::StatusOr<double> ForwardOnly(const Model& model, const std::optional<Batch>& batch,
                                   WeightStream& weights, FusedPass* fused = nullptr);

}  // namespace longhaul

// Forward and backward through a model unit by unit, with no hooks: each unit's output is cut off
// from the graph and becomes the next one's input, and backward walks the units in reverse. A
// unit's weights, activations and gradients are thus needed at known moments only, which is what
// sharding and overlapped reduction rest on.
#pragma once

#include <functional>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/engine/flat_gradients.h"
#include "worker/engine/flat_parameters.h"
#include "worker/model/model.h"

namespace longhaul {

// Called when a unit's gradient is complete on this rank, last unit first.
using UnitGradientReady = std::function<absl::Status(int unit)>;

// Returns the sum of the loss over the batch's tokens. `gradients` receive the gradient of that sum
// times `scale`. Throws as torch does; else fails only as `ready` does.
absl::StatusOr<double> ForwardBackward(const Model& model, const Batch& batch, double scale,
                                       FlatParameters& parameters, FlatGradients& gradients,
                                       const UnitGradientReady& ready);

// The same sum without gradients.
double ForwardOnly(const Model& model, const Batch& batch, FlatParameters& parameters);

}  // namespace longhaul
